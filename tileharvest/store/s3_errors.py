"""The errors of S3: whether an error may pass, and the line about it for a person."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>", re.ASCII)
_METHOD: Final = re.compile(r"Error performing ([A-Z]+) ")
_TROUBLE: Final = re.compile(r"HttpError \{\s*kind: (\w+)", re.ASCII)
_FOR_CREDENTIALS: Final = re.compile(r"Error performing [A-Z]+ \S+/latest/(api|meta-data)/")
"""Shows that obstore had no credentials: it asked for some at the metadata service of Amazon's own
machines."""
_WITHOUT_LOCATION: Final = "redirect without LOCATION"

_PASSING_STATUSES: Final = frozenset({408, 409, 412, 429, 500, 502, 503, 504})
"""The statuses after which a request may succeed later. 409 and 412 reach us only if an image that the
service said was there is not, or no longer, there."""
_PASSING_CODES: Final = frozenset({"RequestTimeout", "SlowDown", "InternalError"})
_LASTING_TROUBLES: Final = frozenset({"", "Unknown"})

_NO_BUCKET: Final = ("there is no such bucket", "create it or correct TILE_STORE")
_CREDENTIALS: Final = (
    "the credentials are not accepted",
    "correct or renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if it has one, AWS_SESSION_TOKEN",
)
_NO_CREDENTIALS: Final = ("there are no credentials", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
_DENIED: Final = (
    "access is denied",
    "allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket to these credentials",
)
_CLOCK: Final = ("this computer's clock is wrong", "set it")
_REGION: Final = ("the bucket is in another region", "set AWS_REGION")
_SLOW_DOWN: Final = ("the service asks to slow down", "wait a while")
_FULL: Final = ("the service has no room left for us", "free space or raise the quota")
_NO_ANSWER: Final = ("the service did not answer in time", "check AWS_ENDPOINT_URL and the network")
_UNREACHABLE: Final = ("the service cannot be reached", "check AWS_ENDPOINT_URL and the network")
_FAILED: Final = ("the service has failed", "wait a while")
_REFUSED: Final = ("the service has refused", "look the code up with the service's provider")
_STRANGE: Final = ("what answers does not speak as S3 does", "check AWS_ENDPOINT_URL")

_BY_CODE: Final = {
    "NoSuchBucket": _NO_BUCKET,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "TokenRefreshRequired": _CREDENTIALS,
    "RequestTimeTooSkewed": _CLOCK,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "PermanentRedirect": _REGION,
    "SlowDown": _SLOW_DOWN,
    "RequestTimeout": _NO_ANSWER,
    # Of MinIO and Ceph.
    "XMinioStorageFull": _FULL,
    "XMinioAdminBucketQuotaExceeded": _FULL,
    "QuotaExceeded": _FULL,
}
"""https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""
_BY_STATUS: Final = {
    401: _CREDENTIALS,
    403: _DENIED,
    429: _SLOW_DOWN,
    503: _SLOW_DOWN,
    507: _FULL,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The facts about a request that failed. Unlike the error's text, they hold no secret."""

    method: str = ""
    status: int | None = None
    """The HTTP status, or None if there was no answer."""
    code: str = ""
    """S3's own code for the error, such as `NoSuchBucket`. Answers to HEAD never have one."""
    trouble: str = ""
    """What happened to the connection, in the words of object_store 0.14, such as Connect or Timeout."""
    elsewhere: bool = False
    """Whether the service redirected to another place without naming it."""
    without_credentials: bool = False
    """Whether there were no credentials for the request."""

    @classmethod
    def of(cls, error: Exception) -> Refusal:
        """Returns the facts about an error, read from its text, because obstore raises the same class for
        most errors."""
        text = str(error)
        status = _STATUS.search(text)
        return cls(
            method=_first(_METHOD, text),
            status=int(status[1]) if status else None,
            code=_first(_CODE, text),
            trouble=_first(_TROUBLE, text),
            elsewhere=_WITHOUT_LOCATION in text,
            without_credentials=_FOR_CREDENTIALS.search(text) is not None,
        )

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        if self.code in _BY_CODE and self.code not in _PASSING_CODES:
            return False
        return (
            self.status in _PASSING_STATUSES
            or self.code in _PASSING_CODES
            or self.trouble not in _LASTING_TROUBLES
        )

    @property
    def missing(self) -> bool:
        """Whether the bucket was there, but had no object of this name."""
        return self.status == 404 and self.code != "NoSuchBucket" and self.method != "PUT"

    @property
    def of_condition(self) -> bool:
        """Whether the service does not support conditions for a put."""
        return self.status == 501 or self.code == "NotImplemented"

    def line(self) -> str:
        """Returns a line that says what happened, what was kept, and what to do next. It does not name the
        store."""
        what, next_step = self._words()
        answer = " ".join(str(part) for part in (self.status, self.code) if part)
        happened = f"{what} ({answer})" if answer else what
        return f"{happened}; nothing recorded was lost; {next_step}, and run again"

    def _words(self) -> tuple[str, str]:
        if self.without_credentials:
            return _NO_CREDENTIALS
        if self.elsewhere:
            return _REGION
        if self.trouble:
            return _NO_ANSWER if self.trouble == "Timeout" else _UNREACHABLE
        if self.status is None:
            return _STRANGE
        if self.status == 404:
            return _NO_BUCKET
        words = _BY_CODE.get(self.code) or _BY_STATUS.get(self.status)
        return words or (_FAILED if self.status >= 500 else _REFUSED)


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
