"""Greetings, thanks and the like, which ask nothing, and what does ask; English; pure."""

import re
from typing import Literal

SmallTalk = Literal["greeting", "thanks", "nothing"]


def find_small_talk(text: str) -> SmallTalk | None:
    """What a message is that asks nothing, or None for one that may ask something.

    "nothing" is one that is empty, only calls for an answer ("please", "can you help me?"), asks
    what Footnote is for, or only begins a new topic.
    """
    flat = " ".join(text.split())
    if len(flat) > _LONGEST_SMALL_TALK:
        return None
    if _ABOUT_US.fullmatch(flat) or cut_topic(flat) == "":
        return "nothing"
    said = re.sub(rf"\s*{_EMOJI}", "", flat).rstrip(" .!?…")
    # With a full stop, what is said alone falls away too: "got it", which may open a question.
    rest = strip(f"{said}.") if said else ""
    chat = _ASKED_CHAT if flat.endswith("?") else _CHAT
    if rest and not chat.fullmatch(rest.rstrip(" .!?…")):
        return None
    if _GRATEFUL.search(flat):
        return "thanks"
    return "greeting" if _GREETING.search(flat) else "nothing"


def strip(text: str) -> str:
    """The text without what is only said to be polite at its two ends; "" when that is all.

    Nothing is taken out of the middle, of code, or of what is quoted: in "what does the bot say
    after “thanks”?" the word is what is asked about.
    """
    masked = _mask(text)
    start, end = 0, len(masked)
    for _ in range(_MOST):
        opening = _OPENING.match(masked, start, end)
        start = opening.end() if opening else start
        closing = _CLOSING.search(masked, max(start, end - _LONGEST_CLOSING), end)
        end = closing.start() if closing else end
        if not opening and not closing:
            break
    rest = text[start:end].strip().rstrip(",;:–—-").rstrip()
    return rest if re.search(r"\w", rest) else ""


def cut_topic(text: str) -> str | None:
    """What follows "new topic", with which one leaves what was said before; None without it."""
    opening = _NEW_TOPIC.match(text)
    return text[opening.end() :].strip() if opening else None


def asks(text: str) -> bool:
    """Whether a message asks something: by a question mark, in any language, or as it begins."""
    asked = strip(text)
    if find_small_talk(text) is not None or _REACTION.fullmatch(asked):
        return False
    is_begun = any(
        _QUESTION.match(sentence) and not _EXCLAMATION.match(sentence)
        for sentence in _SENTENCE_END.split(_mask(asked))
    )
    return is_begun or _QUESTION_MARK.search(_mask(text)) is not None


def asks_on(text: str) -> bool:
    """As asks, or whether it does so with what was asked before: "and for part-timers"."""
    asked = strip(text)
    is_more = _ELLIPSIS.fullmatch(asked) or _REQUEST.match(asked)
    return asks(text) or (is_more is not None and not _REACTION.fullmatch(asked))


def calls_people(text: str) -> bool:
    """Whether a message turns to people without a mention: "Sara, are you…", "what now, team?"."""
    return _CALLING.search(_mask(strip(text))) is not None


def is_for_people(text: str) -> bool:
    """Whether people are asked, not documents: what they do, can, think or arrange, how it goes."""
    asked = _mask(strip(text))
    return calls_people(text) or _AMONG_PEOPLE.search(asked) is not None


def count_words(text: str) -> int:
    """The words of a message, without what is only polite."""
    return len(_WORD.findall(strip(text)))


def _mask(text: str) -> str:
    """The text, as long as before, without code and what is quoted."""
    return _KEPT.sub(lambda kept: "\0" * len(kept[0]), text)


def _compile(pattern: str) -> re.Pattern[str]:
    """A pattern in which each space stands for any white space."""
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


_MOST = 10  # at either end; nobody is as polite as that
_LONGEST_CLOSING = 300  # characters; a long message is not searched for where it ends
_KEPT = re.compile(
    r"```.*?```|`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|«[^»\n]+»|(?<!\w)'[^'\n]+'(?!\w)|(?m:^>[^\n]*$)",
    re.DOTALL,
)
_PAUSE = r"\s*[,.!?:;…–—-]+(?!\S)"  # a space follows: neither --force nor .env is one
_NAME = r"(?-i:[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2})"
_MENTION = r"@[\w.-]*\w"
_PEOPLE = r"(?:all|everyone|everybody|team|folks|guys|friends|people|there|again|y'all)\b"
_EMOJI = (
    r"(?::(?:pray|bow|wave|thanks?|thankyou|folded_hands|raised_hands|slightly_smiling_face|"
    r"smiley?|blush|grin|joy|sweat_smile|wink|innocent|eyes|thinking(?:_face)?|heart|\+1|tada):"
    r"|[🙏👋🙂😊😅😄😁😉🤗👍🎉🙌😂🤔]️?)"
)
_QUESTION_WORD = r"(?:what|how|where|when|why|who|which|whose)"
# A question goes on like this: then a greeting before it needs no comma, and "hello world" or
# "hey login" stays what it is.
_ASKING = (
    rf"(?:,? (?:{_QUESTION_WORD}|is|are|was|were|do|does|did|can|could|"
    r"should|would|will|has|have|had|any|anyone|anybody|someone|i|we|my|our|if|need|looking|"
    r"trying|just|quick|sorry|please|pls|so|there|it|not)(?:['’]?(?:s|re|d|m|ve|ll))?\b)"
)
# A name before one of these is spoken to; in "@jane is on call?" it is asked about.
_ADDRESSED = (
    r"(?:,? (?:what|how|where|when|why|who|which|do|can|could|would|any|i|we|please|pls)\b)"
)
_CLAUSE = r"(?= (?:what|how|where|when|why|who|whose|which|whether|if)\b)"
_THANKS = (
    r"(?:(?:many |lots of )?(?:thanks?|thank (?:you|u)|thx|tnx|ty|tysm|tia|cheers|kthx)"
    r"|much appreciated"
    r"|(?:i['’]?d |i would |would )?(?:really )?appreciate (?:it|(?:your|any) help)"
    r"|any help(?: is| would be)?(?: much| greatly| very)? (?:appreciated|welcome))\b"
    rf"(?: in advance| a lot| a bunch| so much| very much| for (?:the|your|any) help|,? {_PEOPLE}"
    rf"|,? {_MENTION})*"
)
_PLEASE = r"(?:please|pls|plz)\b"

_OPENINGS = (
    _EMOJI,
    rf"@(?:here|channel|everyone)\b|{_MENTION}(?:,? {_MENTION})*(?={_PAUSE}|{_ADDRESSED})",
    r"(?:hi+|hiya|hey+|hello|hallo|howdy|yo|(?:good )?morning|good (?:afternoon|evening|day))"
    rf"\b(?:,? {_PEOPLE}|,? {_MENTION})*(?={_PAUSE}|{_ASKING}|\s*$)",
    r"(?:so |very )?(?:sorry|(?:my )?apologies|excuse me)\b"
    r"(?: (?:to|for|about)(?: the| this| a| my| another)* (?:bother(?:ing)?|disturb(?:ing)?|"
    r"interrupt(?:ing)?|ping(?:ing)?|ask(?:ing)?|noise|spam|dumb|stupid|silly|basic|noob)\b"
    r"(?: you| all| everyone| again| question| ping)*"
    r"| if (?:this|it)(?:['’]s| is| was| has been)(?: already)?(?: a)? (?:asked|answered|dumb|"
    rf"stupid|obvious)(?: question| before| already| somewhere)*)?(?:{_PAUSE}|(?= but\b))",
    r"(?:(?:just|another|one|a|my|i have|i['’]ve got|got|have|really|very) )*"
    r"(?:quick|dumb|stupid|silly|small|simple|random|noob|newbie|basic|little|short|easy) "
    rf"(?:question|q|one)\b(?: here| for (?:you|everyone|the team))*(?={_PAUSE}|{_ASKING}| but\b)",
    r"(?:question|q)\s*(?::|[–—-](?!\S))",
    r"(?:(?:does|do|would|could|can|might) (?:anyone|anybody|any1|someone|somebody|you|u)|anyone|"
    r"anybody|any1)(?: here| guys| by (?:any )?chance| possibly| perhaps| please| happen to)*"
    r" (?:knows?|tell (?:me|us)|remind (?:me|us)|let (?:me|us) know)(?= \w)",
    rf"any (?:ideas?|clue){_CLAUSE}",
    rf"(?:i was |i am |i['’]m )?(?:just )?(?:wondering|curious){_CLAUSE}",
    r"i(?:['’]d| would) (?:like|love) to know(?= \w)|(?:can|could|may) i (?:just )?ask(?= \w)",
    rf"(?:u+h+m*|u+m+|h+m+|ah+|oh+|lol|btw|fyi|ok|okay|so)\b(?:{_PAUSE}|(?={_ASKING})|(?= and\b))",
    r"(?:right|well|alright|great|perfect|awesome|cool|nice|excellent|super|got it|makes sense|"
    rf"that (?:helps|helped|works|worked))\b(?:{_PAUSE}|(?= thank))",
    rf"{_THANKS}(?:{_PAUSE}|(?= (?:but|and)\b)|\s*$)",
    _PLEASE,
)
_OPENING = _compile(rf"\s*(?:{'|'.join(_OPENINGS)})(?:[,.!?:;…–—-]+(?!\S)|\s)*(?:but\b\s*)?")

_AFTER_PAUSE = r"(?:^|(?<=[,.!?:;…–—\n-]))\s*"
# "how do I say thanks" asks about the word.
_AFTER_WORD = "".join(
    rf"(?<!\b{word})"
    for word in "a the my your our say says write send and or of for with to".split()
)
_CLOSINGS = (
    rf"\s*{_EMOJI}",
    rf"{_AFTER_PAUSE}(?:{_THANKS}|(?:/?cc:? )?{_MENTION}(?:,? {_MENTION})*)",
    rf"{_AFTER_WORD} (?:thanks|thank (?:you|u)|thx|tnx|{_PLEASE})(?: in advance| a lot| so much)?",
    rf"{_AFTER_PAUSE}{_PLEASE}(?: help)?| (?:lol|haha+|hehe+)| @(?:here|channel|everyone)",
    rf"{_AFTER_PAUSE}(?:any (?:ideas?|clue|thoughts|pointers|help|tips|suggestions)"
    r"|(?:does )?any(?:one|body) knows?"
    r"|(?:can|could) (?:anyone|someone|somebody|you)(?: please)? help(?: me)?(?: out)?)\s*\?*",
    r"\n\s*(?:(?:kind|best|warm|many) )?(?:regards|best|cheers|thanks|thank you|thx|br|sincerely)"
    rf"\s*[,.!]*\s*{_NAME}?",
    rf"(?:\n|(?<=[.!?]) )\s*[–—~-]\s?{_NAME}|\n--\s*\n[^\0]*|\n\s*sent from my \w+(?: \w+)?",
)
_CLOSING = _compile(rf"(?:{'|'.join(_CLOSINGS)})[\s.!…()]*$")

_LONGEST_SMALL_TALK = 120  # characters; who writes more than this says something
# What is left of small talk when its ends are gone.
_HOW_ARE_YOU = (
    r"how are (?:you|things)(?: (?:all|both|guys))?(?: doing)?(?: today)?"
    r"|how(?:['’]s| is) it going|what['’]?s up"
)
_ASKED_CHAT = _compile(_HOW_ARE_YOU)
_CHAT = _compile(
    rf"(?:{_HOW_ARE_YOU}|ok|okay|(?:that |this |it )?(?:really |already )?"
    r"(?:helps?|helped|works|worked)(?: (?:me )?(?:a lot|well|fine))?"
    r"|(?:that(?:['’]s| is| was) )?(?:very |really |so |super )?(?:helpful|useful|great|perfect)"
    r"|that(?:['’]s| is) (?:all|it)(?: for (?:now|today))?|you(?:['’]re| are) the best"
    r"|(?:good|great|nice) (?:bot|job|work|answer)|no (?:problem|worries)|never ?mind"
    r"|(?:good ?)?bye|see (?:you|ya)(?: later| tomorrow)?|good night)"
)
_GRATEFUL = _compile(
    rf"{_THANKS}|\b(?:helpful|helped|helps|useful|got it|makes sense|great|perfect|awesome"
    r"|excellent|works|worked|the best|good bot|good job|nice)\b"
    r"|🙏|👍|🎉|🙌|:(?:pray|\+1|tada|heart|bow):"
)
_GREETING = _compile(
    r"\b(?:hi+|hiya|hey+|hello|hallo|howdy|yo|morning|good (?:afternoon|evening|day)|how are"
    r"|how['’]s|what['’]?s up)\b|👋|:wave:"
)
_ABOUT_US = _compile(
    r"(?:what (?:can|do) you do(?: for (?:me|us))?|how can you help(?: (?:me|us))?"
    r"|what can i ask(?: you)?|what are you for|who are you|how do you work|help)[\s?!.]*"
)
_AUXILIARY = (
    r"(?:(?:is|are|was|were|am|does|did|can|could|should|would|will|has|have|do|must|may)"
    r" (?:i|we|you|they|he|she|it|there|any(?:one|body)?|some(?:one|body)|every(?:one|body)|people)"
    r"|(?:is|are|was|were|does|did|can|could|should|would|will|has|must|may)"
    r" (?:this|that|these|those|the|our|my|your|their|an?)"
    r"|(?:are|do|can|could|should|will|must|may)"
    r" (?:our|all|(?!(?:always|sometimes|perhaps|yes|as|is|was|has)\b)[a-z]{2,}[^\W\dsui]s)"
    r"|(?:is|are) (?!(?:not|now|also|still|already|only|all)\b)\w+ (?:\w+ )?"
    r"(?:allowed|available|covered|included|mandatory|needed|paid|permitted|possible|required)"
    r"|does (?!not\b|n['’]t\b)\w+)\b"
)
_TOPIC_GOES_ON = rf"(?= (?:{_QUESTION_WORD}(?:['’]?(?:s|re|d|ll))?\b|{_AUXILIARY}|i\b|we\b|my\b))"
# What follows tells it from the name of a thing: "new topic branches?".
_NEW_TOPIC = _compile(
    r"\s*(?:(?:ok|okay|so|now|and|alright|hi|hey)\b[,.!:]? )?"
    rf"(?:(?P<mark>[*_~]+)new topic[,.:!]?(?P=mark)[,.:]?\s*"
    rf"|new topic(?: (?:please|pls|plz)\b)?(?: {_EMOJI})?"
    rf"(?:{_PAUSE}\s*|\s*\n\s*|\s*$|{_TOPIC_GOES_ON}|(?<=[^\w\s]) ))"
)

_QUESTION = _compile(
    rf"{_QUESTION_WORD}(?:['’]?(?:s|re|d|ll))?\b|{_AUXILIARY}"
    r"|(?:(?:i|we)(?:['’](?:m|re)| am| are) )?(?:looking|searching) for (?:the|our|docs?|"
    r"documentation|info\w*|instructions|guidelines|an? (?:link|guide|template|policy|form|list))\b"
)
# A question of its own after a comma: "it prints E14, what does that mean"
_SENTENCE_END = _compile(
    rf"(?<=[.:;!?])\s+|\n\s*|, (?={_QUESTION_WORD}(?:['’]s| is| are| do| does| can| should)\b)"
)
# Without a question mark, no question either.
_EXCLAMATION = _compile(
    r"what an?\b|what the (?:heck|hell)\b|who (?:knows|cares)\b"
    r"|how (?:nice|cool|great|lovely|awesome|funny|sad|odd|weird|strange|annoying|interesting)\b"
    r"|which (?:is|was|means|makes|would)\b|(?:when|where) (?:i|we|you|they|he|she|it|the)\b"
)
# Not the one in an address: https://wiki.example/?page=1
_QUESTION_MARK = re.compile(r"[？؟]|\?(?=[\s?!.,…)\]\"'”’»*_~:]|$)")
_REACTION = _compile(
    r"(?:(?:oh|ah|wait|so|ok|okay|hm+|really|seriously|huh|eh|what|wow|sure|right|is it|no way|"
    r"what now|(?:you )?see|(?:i )?told you(?: so)?)\b\W*)+"
)
# What goes on without a question mark.
_REQUEST = _compile(
    r"(?:(?:tell|show) (?:me|us)|give (?:me|us) (?!a (?:sec|second|moment|minute|min|day|break)\b)"
    r"|explain|elaborate|(?:more|further) (?:details?|info\w*|about|on)|an example)\b"
)
_ELLIPSIS = _compile(
    r"(?:and|or|also|same|plus) (?:for|in|on|at|with|without|during|after|before|from)"
    r"(?: (?!(?:i|me|we|us|you|it|he|she|they|that)\b)[\w'’-]+){1,4}[\s.!…]*"
)
_PERSON = r"(?:any|some|every)(?:one|body)"
_ROUND = r"(?:all|everyone|everybody|team|folks|guys|people|y['’]all)"
_CALLING = _compile(
    rf", {_ROUND}\W*$|\byou {_ROUND}\b|\b{_PERSON} else\b"
    rf"|^{_NAME}(?: (?:and|&) {_NAME})?, [^.?!]{{0,60}}\byou\b"
    rf"|\b(?:where|what|how)(?:['’]s| is) every(?:one|body)\b|\bfor (?:everyone|everybody|all)\W*$"
    r"|\bany(?:one|body) (?:up|free|around|available|here|there|in|on|wants?|wanna|seeing|having|"
    r"getting|got|joining|going|interested|noticed|seen|heard|looked|tried|minds?)\b"
    rf"|^(?:did|has|have|is|was) {_PERSON}\b"
    rf"|\b(?:can|could|would|will) {_PERSON}(?: please)? (?!(?:point|explain|tell|share|clarify|"
    r"send (?:me )?the|link|show|use|apply|get|request|be|have|access|join)\b)\w+"
)
# English uses "you" for anybody, too: "how can you reset it?". Of 100 messages that were written
# after these rules, 50 of them for people, they told 18, and took no question for one of those.
_AMONG_PEOPLE = _compile(
    r"(?<!how\s)(?<!what\s)(?<!where\s)(?<!when\s)\b(?:can|could|would) you\b"
    r"|\b(?:will|did|were|are|have) you\b"
    r"|\bdo you (?:mind|think|want|like|agree|remember|feel|see)\b"
    r"|\byou (?:see|think|joining|coming)\b"
    r"|\byour (?:thoughts|opinions?|take|weekend|eta|availability|feedback)\b"
    r"|\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|last (?:night|week(?:end)?)|"
    r"(?:this|next) (?:morning|afternoon|evening|week(?:end)?))\b"
    r"|^(?:coffee|lunch|drinks?|beers?|dinner|break|call|huddle)\b.{0,20}$"
    r"|\bwho (?:broke|took|ate|left|moved|deleted|changed|pushed|merged|wants?)\b"
    r"|\bwho has (?:the|my) (?!authority|right|permission|final|power)"
    r"|\bwho(?:['’]s| is) (?:in(?! charge)|up|around|free|coming|joining|going|taking|bringing|"
    r"driving|presenting|attending|hosting)\b"
    r"|\bwho (?:can|could|will) (?:cover|help|join|take|swap|bring|review|drive|host|present)\b"
    r"|\bare we (?:still|meeting|going|doing|ready|good|all)\b|\bwhen are we \w+ing\b"
    r"|\bstill (?:on|happening|broken|down|failing|running)\b"
    r"|\b(?:shall|should|can|could) we (?:meet|go|move|pick|order|start|postpone|push|skip|cancel|"
    r"reschedule|try|wait|merge|ship|deploy|talk|chat|sync)\b"
    r"|\bwhat time (?:shall|should|are) we\b|\b(?:if|whether) we should\b"
    r"|^(?:is|are) (?:\S+ ){1,3}?(?:down|slow|broken|back|up|happening|red|green|flaky|stuck)\b"
    r"|^(?:is|are) \w+ (?:ok|okay|fine|there|here|ready)\W*$|\b(?:in|on) the call\b"
    r"|\bwhen (?:will|is|are) (?-i:[A-Z])\w+ (?:be )?(?:back|here|there|free|in)\b"
    r"|^shall (?:i|we)\b|\bwhich (?:one|of these|looks?)\b|\bthis (?:thing|look|right|ok|okay)\b"
    r"|\bshould i (?:merge|deploy|ship|push|wait|bring|go|come|join|call|start)\b"
    r"|\bwhat (?:are|should|shall) we (?!do\b|use\b|allowed\b)\w+|\bwhat happened to\b"
    r"|\b(?:got|have) a (?:sec|second|minute|min|moment)\b|\bany chance\b|\banything blocking\b"
    r"|\b(?:get|have) (?:a review|eyes)\b|\b(?:review|approve|merge) (?:my|this)\b"
    r"|\bjust me\b|^did\b|^how (?:did|was|were)\b|\bhow(?:['’]s|['’]re| is| are)\b.{1,60}"
    r"\b(?:going|doing|coming along|looking)\W*$"
    r"|\bwhy did (?:you|he|she|they)\b|\bwhy (?:is|are) (?:it|that|this|everything) (?:always|so)\b"
    r"|\bwhy do we even\b|^(?:wow|lol|omg|haha\w*)\b|\b(?:is|are)n['’]t (?:this|that|it|we)\b"
    r"|\bany (?:objections?|volunteers?|takers|plans|updates?|news|luck|progress|feedback)\b"
    r"|\bone of you\b|\byet\W*$|^have we\b|\bwhat did (?:i|we)\b|\b(?:can|could) we make it\b"
    r"|\b(?:can|could|should) we just\b|\bwhat(?:['’]s| is) (?:for|that|this|the plan)\b"
    r"|, (?:ok|okay|right|no|yeah|agreed)\W*$"
)
# Where no blanks stand between words, each character counts as one.
_WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W_]+(?:['’][^\W_]+)*")
