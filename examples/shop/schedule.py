"""Writes the periodic tasks of the shop; running it again adds nothing: ``python schedule.py``."""

from shop.tasks import report

nightly = report.cron(
    "0 2 * * *", timezone="Asia/Shanghai", task_options={"unique_key": "nightly report"}, day="yesterday"
)
print(f"the nightly report is task {nightly}; see `taskkit tasks show {nightly}`")
