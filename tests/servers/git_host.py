"""A host of git repositories: `git http-backend` behind nginx, as git's own manual sets it up."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.servers.nginx import Nginx, nginx
from tests.servers.program import installed

_BACKEND: Final = "git-http-backend"
_PASSED: Final = """
    client_max_body_size 0;
    fastcgi_pass unix:{socket};
    fastcgi_param SCRIPT_FILENAME {backend};
    fastcgi_param GIT_PROJECT_ROOT "{folder}";
    fastcgi_param GIT_HTTP_EXPORT_ALL "";
    fastcgi_param GIT_PROTOCOL $http_git_protocol;
    fastcgi_param PATH_INFO $uri;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
"""


@contextmanager
def git_host(folder: Path, more: str = "") -> Iterator[Nginx]:
    """Serves the repositories in the folder until the block ends: `folder/map.git` as `URL/map.git`.

    `more` are further directives for `location`, such as `limit_rate 100k;`.
    """
    program = installed("fcgiwrap", "fcgiwrap")
    core = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="fcgiwrap-") as workplace:
        socket = Path(workplace) / "socket"
        wrapper = subprocess.Popen([program, "-s", f"unix:{socket}"], stderr=subprocess.DEVNULL)
        try:
            passed = _PASSED.format(socket=socket, backend=Path(core) / _BACKEND, folder=folder)
            with nginx(folder, location=passed + more) as server:
                yield server
        finally:
            wrapper.terminate()
            wrapper.wait()
