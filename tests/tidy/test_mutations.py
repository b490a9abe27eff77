from tests.acceptance.mutations import MUTATIONS, ROOT


def test_each_place_where_a_rule_is_broken_on_purpose_still_reads_as_it_did() -> None:
    for mutation in MUTATIONS:
        found = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old)
        assert found == 1, f"{mutation.file}: found {found} times: {mutation.old}"
