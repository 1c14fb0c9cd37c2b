"""Servers on localhost that play Slack and Claude for the tests, behind the real clients."""
