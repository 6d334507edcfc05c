"""Writes a few tasks, as a web shop would when an order comes in: ``python place_order.py``."""

from shop.tasks import fetch, flaky, kit, order_placed, send_email

now = order_placed.enqueue(order=1, to="ada@example.com")
later = send_email.options(delay=5, priority=0).enqueue(to="bob@example.com", subject="How was it?")
shaky = flaky.enqueue(chance=0.7)
page = fetch.enqueue(host="example.com")
print(f"written: {now}, {later}, {shaky}, {page}")
print("order 1 was confirmed by task", kit.result(now, timeout=30))
