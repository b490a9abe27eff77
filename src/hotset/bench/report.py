"""What a bench run says: sections of figures by side, as tables for people and JSON for programs."""

import msgspec
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from hotset.bench.stats import Spread


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a section: its key in JSON, its heading and unit for people."""

    key: str
    heading: str
    unit: str
    #: Digits after the point.
    digits: int = 0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One side's figures, by column key; a figure that could not be taken is None."""

    side: str
    figures: dict[str, Spread | None]
    #: Why the side has no figures, or what must be known to read them.
    note: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one interleaved run."""

    bench: str
    #: The machine, the versions and the settings, as words.
    setting: dict[str, str]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    #: Free text printed last, such as a profile.
    appendix: str = ""

    def to_json(self) -> str:
        """Return the report as one indented JSON document."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def to_rich(self) -> Group:
        """Return the report as tables for a terminal: each cell the median, with the spread below it."""
        head = Text("\n".join(f"{name}: {value}" for name, value in self.setting.items()), style="dim")
        notes = Text("\n".join(f"· {note}" for note in self.notes))
        tables = [_table(section) for section in self.sections]
        return Group(Text(f"hotset bench {self.bench}", style="bold"), head, *tables, notes, Text(self.appendix))

    def to_text(self, width: int = 140) -> str:
        """Return the tables as plain text of at most `width` characters a line."""
        console = Console(width=width, no_color=True, force_terminal=False)
        with console.capture() as captured:
            console.print(self.to_rich())
        return captured.get()


def _table(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", show_lines=True)
    table.add_column("")
    for column in section.columns:
        table.add_column(f"{column.heading}\n[dim]{column.unit}[/dim]", justify="right")
    for row in section.rows:
        cells = [_cell(row.figures.get(column.key), column.digits) for column in section.columns]
        table.add_row(f"{row.side}\n[dim]{row.note}[/dim]" if row.note else row.side, *cells)
    return table


def _cell(figure: Spread | None, digits: int) -> str:
    if figure is None:
        return "—"
    middle, low, high = (f"{value:,.{digits}f}" for value in (figure.median, figure.low, figure.high))
    return middle if figure.rounds == 1 else f"{middle}\n[dim]{low} … {high}[/dim]"
