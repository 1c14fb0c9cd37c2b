"""Which questions are one, however they are typed, and whose business they are."""

# SQL over a column `question`: the same for all that differ in case, spacing and outer punctuation.
QUESTION_KEY = """coalesce(nullif(btrim(regexp_replace(lower(question), '\\s+', ' ', 'g'),
                                       ' ?!.,;:…''"“”‘’'), ''), question)"""
# SQL over a trace: whether it was asked where colleagues read along. A private channel may count
# as such, since not every one can be told by its id.
IN_CHANNEL = "coalesce(channel_id LIKE 'C%', false)"
LEAST_ASKERS = 3  # of a question, before it is no longer a matter of theirs; chosen
