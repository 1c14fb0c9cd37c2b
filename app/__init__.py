"""The Slack app: from a question in Slack or a terminal to a footnoted answer and its trace."""
