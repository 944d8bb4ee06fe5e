"""Blocks as Scrapy sees them: an ordinary request, its response, and the item that comes of it."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy import Request
from scrapy.http import Response

from tileharvest.history.blocks import FoundBlock, KnownBlock
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.tiles.block import Block, mask_of
from tileharvest.tiles.versions import Image
from tileharvest.walk.walk import LATE, ON_WALK, Asked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from tileharvest.tiles.verdict import Answer

_BLOCK: Final = "block"
"""Key of meta: layer, zoom, column, row and mask of the block."""
_ASKED: Final = "asked"
"""Key of meta: how the tiles are asked for, as a dict of `Asked` without its defaults."""
ATTEMPT: Final = "attempts"
"""Key of meta: how often the tiles of this request were asked before, without a usable answer."""
_OF_ONE_REQUEST: Final = frozenset(
    {"lease", "not_before", "depth", "download_latency", "download_slot", "proxy"}
)
"""The keys of meta that belong to one request. Keys with a leading underscore are Scrapy's own."""


class BlockRequest(Request):
    """Asks for the tiles of a block, by HEAD or by GET.

    It is an ordinary request: it passes the scheduler, every downloader middleware and the download handler.
    What a middleware sets on it (headers, `proxy`, `download_timeout`) holds for each of its tiles. Its `url`
    is the address of one of its tiles, for logs and for middlewares that look at the host. The download
    handler takes the address of each tile from the layer, since addresses change when a map grows.
    """

    known: KnownBlock = KnownBlock()
    """What the history knew of the block when it was looked up. `DiffMiddleware` sets it."""
    gets: int = 0
    """The tiles that a HEAD block asks for by GET all the same. `DiffMiddleware` sets it."""
    expected: int = 0
    """The tiles that should exist, of which a host that answers 403 or 404 to HEAD may refuse HEAD alone.
    `DiffMiddleware` sets it."""
    left_out: int = 0
    """The tiles that are not asked, because this harvest has a result for them."""

    @classmethod
    def of(cls, block: Block, url: str, *, asked: Asked = ON_WALK, **options: Any) -> Self:
        """Returns the request for these tiles. `options` are those of `scrapy.Request`."""
        meta = {**options.pop("meta", {}), "verbatim_url": True, _BLOCK: [*block.place, block.mask]}
        if asked != ON_WALK:
            meta[_ASKED] = msgspec.to_builtins(asked)
        return cls(url, meta=meta, **options)

    @property
    def is_pushed(self) -> bool:
        """Whether a person has pushed a tile, and nobody has looked yet which tile of the site it is. Its
        address says that."""
        return _BLOCK not in self.meta

    def locate(self, block: Block) -> None:
        """Says which tile of the site a person has pushed."""
        self._change_block(block)
        self.meta[_ASKED] = msgspec.to_builtins(LATE)

    @cached_property
    def block(self) -> Block:
        return Block(*self.meta[_BLOCK])

    def _change_block(self, block: Block) -> None:
        self.meta[_BLOCK], self.block = [*block.place, block.mask], block

    @property
    def asked(self) -> Asked:
        return msgspec.convert(self.meta[_ASKED], Asked) if _ASKED in self.meta else ON_WALK

    @property
    def was_leased(self) -> bool:
        """Whether a lease on this request was lost before, so that its tiles may have been asked already."""
        lease = self.meta.get("lease")
        return lease is not None and lease["attempt"] > 1

    @property
    def attempt(self) -> int:
        """The number of this attempt at the tiles. The first is 1."""
        return int(self.meta.get(ATTEMPT, 0)) + 1

    def leave_out(self, mask: int) -> None:
        """Leaves these tiles out of the request, which may then have none."""
        block = self.block
        self.left_out = block.mask & mask
        self._change_block(msgspec.structs.replace(block, mask=block.mask & ~mask))

    def narrowed(self, mask: int, **changes: Any) -> Self:
        """Returns the same request for some of its tiles, with these parts changed. It is never filtered as
        seen: it is the rest of one that was."""
        block = self.block.only(mask)
        assert block is not None
        kept = {
            key: value for key, value in self.meta.items() if key not in _OF_ONE_REQUEST and key[0] != "_"
        }
        meta = {**kept, **changes.pop("meta", {}), _BLOCK: [*block.place, block.mask]}
        narrowed: Self = self.replace(meta=meta, headers={}, dont_filter=True, **changes)
        return narrowed


class BlockResponse(Response):
    """The answers to a block's tiles."""

    attributes: tuple[str, ...] = (*Response.attributes, "answers", "gets", "result")

    def __init__(
        self,
        *args: Any,
        answers: Mapping[int, Answer | Exception] | None = None,
        gets: int = 0,
        result: BlockResult | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.answers: Mapping[int, Answer | Exception] = answers or {}
        """By the tile's bit: its answer, or why there is none."""
        self.gets = gets
        """The tiles that were asked by GET."""
        self.result = result
        """What the answers mean. `DiffMiddleware` sets it."""

    @property
    def asked(self) -> int:
        """The mask of the tiles that have an answer, or a failure."""
        return mask_of(self.answers)


class BlockResult(msgspec.Struct):
    """What the answers to a block mean: what a harvest found there, and what follows. It is the item that the
    spiders yield. Recording it again changes nothing. Masks are those of the block."""

    block: Block
    """The block that was asked for. What was found there may be about some of its tiles."""
    found: FoundBlock = msgspec.field(default_factory=FoundBlock)
    bodies: dict[Image, bytes] = {}
    """The bytes of the images of new versions."""
    spared_bytes: int = 0
    """The bytes of known images that were not fetched, because their tiles have not changed."""
    gets: int = 0
    """The tiles that are fetched next, because a HEAD did not settle their outcome."""
    again: int = 0
    """The tiles that are asked again after a pause, because they have failed and may yet answer."""
    pause: float = 0.0
    """The seconds of that pause."""
    left: int = 0
    """The tiles that were not asked, because the block was cut short."""
    there: int = 0
    """The tiles that are there, or may be. The walk goes on beside them, if it goes sideways."""


class BlockFingerprinter(SegmentFingerprinter):
    """Two requests for a block are the same if method, layer, place, mask and way of asking are the same. The
    address does not count, because it changes when a map grows. All other requests are compared as
    `SegmentFingerprinter` does."""

    def fingerprint(self, request: Request) -> bytes:
        if not isinstance(request, BlockRequest) or _BLOCK not in request.meta:
            return super().fingerprint(request)
        parts = (request.method, request.meta[_BLOCK], request.meta.get(_ASKED))
        return sha1(msgspec.json.encode(parts), usedforsecurity=False).digest()
