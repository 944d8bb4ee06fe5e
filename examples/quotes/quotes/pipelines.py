"""Where the quotes are kept."""

import sqlite3


class SqlitePipeline:
    """Keeps the quotes in `quotes.sqlite`. A quote is committed before its page counts as done, so no kill
    takes it; one that comes twice is kept once."""

    def open_spider(self):
        self.connection = sqlite3.connect("quotes.sqlite")
        self.connection.execute("CREATE TABLE IF NOT EXISTS quotes (text TEXT PRIMARY KEY, author TEXT)")

    def close_spider(self):
        self.connection.close()

    def process_item(self, item):
        with self.connection:
            self.connection.execute("INSERT OR REPLACE INTO quotes VALUES (:text, :author)", item)
        return item
