"""The viewer's page with its modules as one script, for the server and for a folder without one.

Each module is a function of the script, which is called when another module imports it. Browsers load no
modules for a page that was opened by a double click, and one file is smaller and comes sooner than thirty. A
folder has all modules in the script, of which a few are replaced by those of `published/` that need no
server. The server's script has the modules without which the page cannot begin.
"""

from __future__ import annotations

import posixpath
import re
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDER: Final = Path(__file__).parents[1] / "viewer" / "page"
_OWN: Final = "published/"
"""The folder of modules that replace others of the same name."""
_LEAFLET: Final = "leaflet/leaflet.js"
"""Leaflet, which is not a module, and is loaded before the script."""
_SCRIPT: Final = "page.js"
_INDEX: Final = "index.html"
_MAIN_MODULE: Final = "main.js"

_IMPORT: Final = re.compile(r'^import (?:([^"]+?) from )?"([^"]+)";', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const|let) (\w+))", re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export \{([\w, ]+)\};", re.MULTILINE)
_COMMENT: Final = re.compile(r"/\*\* .*?\*/ ?|/\*\*\n.*?\*/|^[ \t]*// [^\n]*", re.MULTILINE | re.DOTALL)
"""A comment of JSDoc, or a comment on a line of its own."""
_DEFAULT: Final = re.compile(r"^export default ", re.MULTILINE)
_IMPORT_LATER: Final = re.compile(r"(?<![\w.{@])import\((?=[\"`])")
_PRELOADED: Final = re.compile(r'^ *<link rel="(?:module)?preload".*\n', re.MULTILINE)
_STYLE: Final = '<link rel="stylesheet" href="page/style.css">'
_MAIN: Final = '<script type="module" src="page/main.js"></script>'


def published_files() -> dict[str, bytes]:
    """Returns the page's files by path, without the index. They lie in a folder that is named by their
    content.

    Raises OSError for a file that cannot be read.
    """
    there = ((file.relative_to(_FOLDER).as_posix(), file) for file in sorted(_FOLDER.rglob("*")))
    files = {name: file.read_bytes() for name, file in there if file.is_file() and "/." not in f"/{name}"}
    modules = {name: body.decode() for name, body in files.items() if _is_module(name)}
    made = {name: body for name, body in files.items() if not _is_module(name) and name != _INDEX}
    made[_SCRIPT] = bundle(modules).encode()
    every = b"".join(name.encode() + body for name, body in sorted(made.items())) + files[_INDEX]
    folder = f"page/{sha1(every, usedforsecurity=False).hexdigest()[:16]}"
    return {f"{folder}/{name}": body for name, body in made.items()}


def index_page(files: Mapping[str, bytes], data: str) -> bytes:
    """Returns the index, which names the page's `files` and the list of the map's data, `data`."""
    folder = posixpath.commonpath(files)
    text = (_FOLDER / _INDEX).read_text("utf-8")
    text = _PRELOADED.sub("", text).replace("<html ", "<html data-published ", 1)
    scripts = (
        f'<script src="page/{_OWN}lists.js"></script>\n  '
        f'<script src="lists/{data[:2]}/{data}.js"></script>\n  '
        # The script needs the whole page, so it is deferred.
        f'<script defer src="page/{_SCRIPT}" data-index="{data}"></script>'
    )
    text = text.replace(_STYLE, f'{_STYLE}\n  <link rel="stylesheet" href="page/{_OWN}published.css">', 1)
    text = text.replace(_MAIN, scripts, 1)
    return re.sub(r'(?<=")page/', f"{folder}/", text).encode()


def bundle(modules: Mapping[str, str]) -> str:
    """Returns a script with all modules, which are given by path. It begins by running `main.js`.

    Raises ValueError for a module whose imports or exports have a form that this function does not know."""
    parts = "".join(_function(name, text, modules) for name, text in sorted(modules.items()))
    return f"{_BEGINNING}{parts}{_END}"


def served_modules(modules: Mapping[str, str]) -> dict[str, str]:
    """Returns the scripts that the server sends, by path: `main.js` with all that it imports, and each other
    module alone, which comes when it is imported. Nothing without `main.js`.

    Raises ValueError as `bundle` does."""
    if _MAIN_MODULE not in modules:
        return {}
    first: dict[str, str] = {}
    waiting = [_MAIN_MODULE]
    while waiting:
        name = waiting.pop()
        if name not in first and name in modules:
            first[name] = modules[name]
            waiting += [_path(found[2], name) for found in _IMPORT.finditer(modules[name])]
    made = {name: _function(name, text, modules) for name, text in modules.items()}
    script = "".join(made[name] for name in sorted(first))
    return {
        **{name: text for name, text in made.items() if name not in first},
        _MAIN_MODULE: f"{_BEGINNING}{script}{_END}",
    }


def without_comments(module: str) -> str:
    """Returns a module of the page without its comments, which are a sixth of the page.

    No text in a module may look like a comment of JSDoc, and no line of a text may begin with `//`.
    """
    return _COMMENT.sub("", module)


def _path(imported: str, importer: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), imported))


def _function(name: str, text: str, modules: Mapping[str, str]) -> str:
    """Returns the statement that adds a module to `modules`, as a function that fills its exports."""
    exported = [
        *_EXPORT.findall(text),
        *(one.strip() for found in _EXPORT_LIST.findall(text) for one in found.split(",")),
    ]
    body = _IMPORT.sub(lambda found: _imported(found, name, modules), without_comments(text))
    body = _DEFAULT.sub("exports.default = ", _EXPORT_LIST.sub("", _EXPORT.sub("", body)))
    body = _IMPORT_LATER.sub("later(", body)
    if re.search(r"^(?:import|export)\b", body, re.MULTILINE):
        raise ValueError(f"module {name} imports or exports in a form that cannot be put into one script")
    named = ", ".join(exported)
    made = f"async (exports, later) => {{\n{body}\nObject.assign(exports, {{ {named} }});\n}}"
    return f'modules["{name}"] = {made};\n'


def _imported(found: re.Match[str], name: str, modules: Mapping[str, str]) -> str:
    names, path = found[1], _path(found[2], name)
    if path == _LEAFLET:
        return ""
    if path not in modules:
        raise ValueError(f"module {name} imports {path}, which is not there")
    module = f'await later("{found[2]}")'
    if names is None:
        return f"{module};"
    if names.startswith("* as "):
        return f"const {names[5:]} = {module};"
    if names.startswith("{"):
        return f"const {names.replace(' as ', ': ')} = {module};"
    return f"const {{ default: {names} }} = {module};"


def _is_module(name: str) -> bool:
    return name.endswith(".js") and name not in (_LEAFLET, f"{_OWN}lists.js")


_BEGINNING: Final = """/* The page of TileHarvest, made of the modules in tileharvest/viewer/page. */
"use strict";
globalThis.modules = {};
const made = {};
const given = (name) => (made[name] ??= load(name).catch((error) => {
  delete made[name];
  throw error;
}));
async function load(name) {
  if (!(name in modules)) await import(`./${name}`);
  const exports = {};
  const folder = name.slice(0, name.lastIndexOf("/") + 1);
  await modules[name](exports, (path) => {
    const wanted = new URL(path, `https://module.invalid/${folder}`).pathname.slice(1);
    const own = `published/${wanted}`;
    return given(own in modules && !name.startsWith("published/") ? own : wanted);
  });
  return exports;
}
"""
_END: Final = 'given("main.js");\n'
