"""Where a site may send us."""

import pytest

from tileharvest.politeness.neighbours import refused_network

PUBLIC = "93.184.215.14"


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("127.0.0.1", "this computer's own"),
        ("0.0.0.0", "this computer's own"),
        ("::1", "this computer's own"),
        ("::ffff:127.0.0.1", "this computer's own"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("10.0.0.1", "private"),
        ("172.16.3.4", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("fec0::1", "private"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:a00:1::1", "private"),
        ("64:ff9b::93.184.216.34", None),
        ("2002:5db8:d822::1", None),
        (PUBLIC, None),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", None),
    ],
)
def test_a_map_of_the_internet_leads_to_no_network_of_ours(target: str, kind: str | None) -> None:
    assert refused_network([target], [PUBLIC]) == kind


def test_one_address_of_several_is_enough_and_a_map_of_a_network_may_lead_around_in_it() -> None:
    assert refused_network([PUBLIC, "10.0.0.1"], [PUBLIC]) == "private"
    for target, own in (("10.0.0.1", "192.168.1.7"), ("127.0.0.1", "127.0.0.1")):
        assert refused_network([target], [own]) is None
        assert refused_network(["169.254.169.254"], [own]) == "link-local"
