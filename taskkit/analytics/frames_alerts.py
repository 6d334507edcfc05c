"""The frames about alerts: what was wrong, what was told of it, and each call that was made for it."""

from __future__ import annotations

from taskkit.analytics.frame import frame

ALERTS = (
    frame("alerts", "Alerts that were open in the window, newest first: the 5,000 newest.", """
id | n | | its number
rule | w | | the rule
object | w | | what it is about; empty: the installation as a whole
state | w | | pending, firing or resolved, as of now
severity | w | | note, warning or critical
cause | w | | the verdict that explains it
title | w | | what it says, in English
value | f | | what the check measured last
unit | w | | of the value
since_at | at | | the first breach
breach_at | at | | the latest breach
firing_at | at | | when it began to fire; n/a: it never did
told_at | at | | when somebody was told last; n/a: nobody was
resolved_at | at | | when it was over
flaps | n | | how often it went under its limit and came back
inhibited_by | w | | the rule whose alert explains it
silence_id | N | | the silence that covers it
acked_at | at | | when somebody said that they look after it
acked_by | w | | who
"""),
    frame("notices", "Messages that were put into the outbox in the window: the 5,000 newest.", """
id | n | | its number
receiver | w | | for whom
severity | w | | note, warning or critical
state | w | | waiting, sending, sent, merged (into another), dropped (over before it was told) or refused
created_at | at | | when it was written
due_at | at | | when it may go at the earliest
sent_at | at | | when it arrived
attempts | n | | how often it was tried
code | w | | of the last answer
reply | w | | the last answer, without secrets
merged_into | N | | the notice that told it
alerts | n | alerts | how many it is about; 0: none, such as a test message
first_alert | N | | the first of them
"""),
    frame("deliveries", "Calls to receivers in the window: the 5,000 newest.", """
id | n | | its number
notice_id | N | | for which notice
receiver | w | | to whom
at | at | | when it ended
kind | w | | markdown, text, mention, file, json or mail
verdict | w | | sent, retry, pause, …; n/a while it is under way
code | w | | of the answer
reply | w | | the answer, without secrets
took_ms | f | ms | how long it took
"""),
)  # fmt: skip
