"""KedamaDiff as its sources describe it: visits the states of a site in turn, and writes its archive.

It follows `crawl.py` and `util/update_history_DBConn.py` of xmoiduts/KedamaDiff: an image is saved where its
ETag and its sha1 differ from the latest record's; where only the ETag differs the latest record gets it.
"""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.end_to_end.rendering import Rendering

_SCHEMA = """
    CREATE TABLE crawl_records(
        file_name varchar(40) NOT NULL,
        crawled_at varchar(8) NOT NULL,
        map_rotation varchar(2),
        ETag varchar(30) NOT NULL,
        zoom_level INTEGER NOT NULL,
        coord_x INTEGER NOT NULL,
        coord_y INTEGER NOT NULL,
        frozen boolean DEFAULT False,
        deleted boolean DEFAULT False
    );
    CREATE TABLE map_attributes(
        id INTEGER PRIMARY KEY NOT NULL, map_name varchar(30), map_savename varchar(30),
        storage_type varchar(6), data_path varchar(128)
    );
    CREATE TABLE last_update(
        id INTEGER PRIMARY KEY NOT NULL, date varchar(8), total_depth INTEGER, renderer varchar(128)
    );
"""


class Record(NamedTuple):
    day: str
    etag: str
    newest_etag: str


@dataclass
class KedamaDiff:
    """The archive of one map, in a folder."""

    folder: Path
    savename: str
    records: dict[str, list[Record]] = field(default_factory=dict)

    def visit(self, rendering: Rendering, day: str) -> None:
        """Crawl all tiles that are there. nginx's ETag is made of time and size."""
        day = day.replace("-", "")
        for path in sorted(rendering.paths()):
            _, *place = rendering.tile(path)
            file, its = rendering.file(path), rendering.file(path).stat()
            name, etag = "_".join(map(str, place)) + ".jpg", f'"{int(its.st_mtime):x}-{its.st_size:x}"'
            records = self.records.setdefault(name, [])
            if records and self.image(records[-1].day, name).read_bytes() == file.read_bytes():
                records[-1] = records[-1]._replace(newest_etag=etag)
                continue
            records.append(Record(day, etag, etag))
            image = self.image(day, name)
            image.parent.mkdir(parents=True, exist_ok=True)
            image.write_bytes(file.read_bytes())

    def image(self, day: str, name: str) -> Path:
        return self.folder / "images" / self.savename / day / name

    @property
    def data(self) -> Path:
        folder = self.folder / "data" / self.savename
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_database(self, map_name: str, depth: int) -> None:
        """The newer form. Its own SQLite writes what `deleted` is when nobody says it."""
        with closing(sqlite3.connect(self.data / "crawl_records.sqlite3")) as connection:
            connection.executescript(_SCHEMA)
            for name, records in self.records.items():
                zoom, x, y = map(int, name.removesuffix(".jpg").split("_"))
                connection.executemany(
                    "INSERT INTO crawl_records (file_name, crawled_at, ETag, zoom_level, coord_x, coord_y)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    [(name, one.day, one.newest_etag, zoom, x, y) for one in records],
                )
            connection.execute(
                "INSERT INTO map_attributes VALUES (1, ?, ?, 'local', 'data')", (map_name, self.savename)
            )
            last = max(one.day for records in self.records.values() for one in records)
            connection.execute("INSERT INTO last_update VALUES (1, ?, ?, 'Overviewer')", (last, depth))
            connection.commit()

    def write_json(self) -> None:
        """The older form, of a time when records kept the ETag with which their image came."""
        updates = {
            name: [{"ETag": one.etag, "Save_in": f"images/{self.savename}/{one.day}/"} for one in records]
            for name, records in self.records.items()
        }
        latest = {name: {"ETag": records[-1].newest_etag} for name, records in self.records.items()}
        (self.data / "update_history.json").write_text(json.dumps(updates, indent=2))
        (self.data / "latest_ETag.json").write_text(json.dumps(latest, indent=2))

    def change(self, statement: str, *values: object) -> None:
        """Changes the database, as a person could."""
        with closing(sqlite3.connect(self.data / "crawl_records.sqlite3")) as connection:
            connection.execute(statement, values)
            connection.commit()
