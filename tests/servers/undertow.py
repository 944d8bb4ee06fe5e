"""The server that squaremap and Pl3xMap bring, as a rule of a `misbehaving` one.

Both set up Undertow's resource handler in the same way. The lines are those of
`common/src/main/java/xyz/jpenilla/squaremap/common/httpd/IntegratedServer.java` of jpenilla/squaremap at
commit 4740bd2, and of `core/src/main/java/net/pl3x/map/core/httpd/HttpdServer.java` of granny/Pl3xMap at
37004de:

- `setETagFunction`, squaremap 64-74, Pl3xMap 91-100: the ETag is the file's modification time in
  milliseconds;
- the handler for what is not found, squaremap 79-88, Pl3xMap 102-112: a path that begins with `/tiles` and
  ends with `.png` (Pl3xMap: or `.gz`) has its status set to 200, and nothing is sent, so Undertow writes
  `Content-Length: 0` and no validators. Any other path is 404;
- squaremap 45-50, Pl3xMap 120-122: all below `/tiles` has `Cache-Control: max-age=0, must-revalidate,
  no-cache`;
- 304 is sent before any other header is set, so it has neither ETag nor Last-Modified (`serveResource` of
  Undertow's `ResourceHandler.java`).
"""

from email.utils import formatdate

from tests.servers.misbehaving import Answer, Exchange


async def undertow(exchange: Exchange) -> Answer:
    is_tiles, file = exchange.path.startswith("/tiles"), exchange.file
    headers = {"Cache-Control": "max-age=0, must-revalidate, no-cache"} if is_tiles else {}
    if not file.is_file():
        status = 200 if is_tiles and file.suffix in (".png", ".gz") else 404
        # To HEAD, too, where aiohttp would leave it out.
        return Answer(status, headers | {"Content-Length": "0"})
    etag = f'"{file.stat().st_mtime_ns // 1_000_000}"'
    if exchange.request.headers.get("If-None-Match") == etag:
        return Answer(304, headers)
    modified = formatdate(int(file.stat().st_mtime), usegmt=True)
    return Answer(200, headers | {"ETag": etag, "Last-Modified": modified}, file.read_bytes())
