from __future__ import annotations

from sqlalchemy import Integer, bindparam, create_engine, select


def test_engines_share_no_statement_whose_parameters_are_written_otherwise() -> None:
    statement = select(bindparam("a", 4, Integer) - bindparam("b", 1, Integer))
    sent = []
    for style in ("qmark", "named"):
        engine = create_engine("sqlite://", paramstyle=style)
        with engine.connect() as connection:
            sent.append(connection.execute(statement).context.statement)
        engine.dispose()
    assert ["?" in one for one in sent] == [True, False]
