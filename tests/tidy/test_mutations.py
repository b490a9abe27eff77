from tests.acceptance.mutations import MUTATIONS, ROOT
from tests.acceptance.planted_bugs import BUGS


def test_each_place_where_a_rule_is_broken_on_purpose_still_reads_as_it_did() -> None:
    for change in (*MUTATIONS, *BUGS):
        found = (ROOT / change.file).read_text(encoding="utf-8").count(change.old)
        assert found == 1, f"{change.file}: found {found} times: {change.old}"
