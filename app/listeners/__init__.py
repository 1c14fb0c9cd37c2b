"""What Slack can send: one file a surface, each turning an event into one plain call."""
