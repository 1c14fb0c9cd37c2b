"""Claude as it is on a bad day, with answers that tell which question they are for."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tests.stand_ins.claude import ERROR_TYPES, ClaudeStandIn
from tests.stand_ins.claude_messages import Reply, Text, obedient, search_results
from tests.stand_ins.local_http import HangUp, HttpAnswer, HttpRequest, json_answer

from .faulty_slack import Handing
from .journal import Journal
from .plan import Dice

Json = dict[str, Any]
ASKED_BY = re.compile(r"Asked by ([a-z]+)\.")
TURN = re.compile(r'<turn by="colleague">(.*?)</turn>', re.DOTALL)
HANG_S = 15.0  # longer than ANSWER_TIMEOUT_S of the processes


class FaultyClaude(ClaudeStandIn):
    """Answers each question with what is found, between two sentences that say whose it is."""

    def __init__(self, dice: Dice, journal: Journal) -> None:
        super().__init__(piece_characters=40)
        self._requests = Handing(lambda _: None)
        self._dice = dice
        self._journal = journal
        self._is_over = threading.Event()
        self.request_count = 0

    def let_go(self) -> None:
        """End all hanging answers."""
        self._is_over.set()

    def _next_reply(self, body: Json) -> Reply:
        content = body["messages"][-1]["content"]
        if body.get("output_config"):
            return Reply(parts=[Text(_reword(str(content)))])
        found = ASKED_BY.findall(json.dumps(content))
        if not found or not search_results(body):
            return Reply(parts=obedient(body))
        first = search_results(body)[0]["content"][0]["text"]
        return Reply(
            parts=[
                Text(f"This begins what {found[-1]} asked. "),
                Text(first, cites=[(0, 0, 1)]),
                Text(f" This ends what {found[-1]} asked."),
            ]
        )

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        self.request_count += 1
        way = self._dice.roll()
        if way is None:
            return super()._answer(request)
        asked = ASKED_BY.findall(request.body.decode("utf-8", "replace"))
        self._journal.note(f"fault: Claude {way} for {asked[-1] if asked else None}")
        if way.isdecimal():
            error = {"type": ERROR_TYPES[int(way)], "message": "stand-in"}
            headers = {"retry-after": "1"} if way == "429" else {}
            return json_answer({"type": "error", "error": error}, status=int(way), headers=headers)
        if way == "hangs":
            self._is_over.wait(HANG_S)
            return HttpAnswer(body=None)
        answer = super()._answer(request)
        if isinstance(answer.body, bytes) or answer.body is None:  # not streamed
            self._is_over.wait(1)
            return answer if way == "slow" else HttpAnswer(body=None)
        return HttpAnswer(headers=answer.headers, body=self._spoil(answer.body, way))

    def _spoil(self, pieces: Iterator[bytes], way: str) -> Iterator[bytes]:
        left = round(self._dice.draw(3, 14))
        for number, piece in enumerate(pieces):
            if way == "slow":
                self._is_over.wait(0.2)
            elif number == left:
                if way == "cut in the middle":
                    raise HangUp
                if way == "error in the middle":
                    error = {"type": "overloaded_error", "message": "Overloaded"}
                    data = json.dumps({"type": "error", "error": error})
                    yield f"event: error\ndata: {data}\n\n".encode()
                return
            yield piece


def find_word(text: str) -> str | None:
    """Whose question or answer a text says it is: the last one of whom it is said."""
    found = re.findall(r"(?:begins|ends) what ([a-z]+) asked|Asked by ([a-z]+)", text)
    return "".join(found[-1]) if found else None


def _reword(conversation: str) -> str:
    """The last turn as it is, in the form that is asked for."""
    turns = TURN.findall(conversation)
    last = " ".join(turns[-1].split()) if turns else ""
    plain = ASKED_BY.sub("", last).strip()
    wording: Mapping[str, Any] = {"standalone": last, "queries": [plain or last]}
    return json.dumps(wording)
