"""A file as WeCom's robot takes it: one multipart part named media, of a made-up name where the real one could harm."""

from __future__ import annotations

import re

import httpx

BOUNDARY = "taskkit-3f6c1d2a9b7e4805"
FILE_TYPE = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def upload_address(url: str) -> httpx.URL:
    """Where a robot's files go, from where its messages go."""
    address = httpx.URL(url)
    path = address.path.rpartition("/")[0] + "/upload_media"
    return address.copy_with(path=path).copy_merge_params(
        {"key": address.params.get("key", ""), "type": "file"}
    )


def multipart(name: str, data: bytes) -> bytes:
    """The body of an upload."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100] or "notebook.html"
    head = (
        f"--{BOUNDARY}\r\n"
        f'Content-Disposition: form-data; name="media"; filename="{safe}"; filelength={len(data)}\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()
