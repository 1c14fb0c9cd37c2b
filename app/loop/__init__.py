"""From a flagged answer to the nightly figure: cases, their review, runs over them, alerts."""
