"""Which questions are one, however they are typed."""

# SQL over a column `question`: the same for all that differ in case, spacing and outer punctuation.
QUESTION_KEY = """coalesce(nullif(btrim(regexp_replace(lower(question), '\\s+', ' ', 'g'),
                                       ' ?!.,;:…''"“”‘’'), ''), question)"""
