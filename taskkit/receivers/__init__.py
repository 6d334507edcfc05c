"""Receivers: a notice becomes what a chat robot, a webhook or a mail server takes, and its answer a verdict. No SQL."""

from taskkit.receivers.protocol import Form, Payload, Receiver, Reply, Verdict, next_form

__all__ = ["Form", "Payload", "Receiver", "Reply", "Verdict", "next_form"]
