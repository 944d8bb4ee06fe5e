"""One file per revision, applied in order; a file that was released is never edited again."""
