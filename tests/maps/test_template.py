"""Templates of plain tiles: the addresses that they give, and the places of addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.maps.template import Template

HOST = "https://tiles.example.net"

FORMS = [
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}.png", f"{HOST}/m/3/1/6.png"),
    (f"{HOST}/m/{{z}}/{{x}}/{{-y}}.png", f"{HOST}/m/3/1/1.png"),
    (f"{HOST}/m/{{zoom}}/{{y}}/{{x}}@2x.jpg", f"{HOST}/m/3/6/1@2x.jpg"),
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}{{r}}.webp", f"{HOST}/m/3/1/6.webp"),
    (f"{HOST}/tile.php?z={{z}}&x={{x}}&y={{y}}", f"{HOST}/tile.php?z=3&x=1&y=6"),
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}.png?key=k{{z}}", f"{HOST}/m/3/1/6.png?key=k3"),
    (f"{HOST}/a/r{{quadkey}}.jpeg?g=1", f"{HOST}/a/r221.jpeg?g=1"),
    (f"{HOST}/my map/{{z}}/{{x}}/{{y}}.png", f"{HOST}/my%20map/3/1/6.png"),
    ("https://{s}.example.net/{z}/{x}/{y}.png", "https://a.example.net/3/1/6.png"),
    ("https://t{1-4}.example.net/{z}/{x}/{y}.png", "https://t1.example.net/3/1/6.png"),
    ("https://{switch:x,y}.example.net/{z}/{x}/{y}.png", "https://x.example.net/3/1/6.png"),
]


@pytest.mark.parametrize(("text", "url"), FORMS, ids=[text for text, _ in FORMS])
def test_a_tile_has_the_address_that_the_template_says_and_an_address_its_tile(text: str, url: str) -> None:
    template = Template(text)
    assert template.url(3, 1, 6) == url
    assert template.place(url) == (3, 1, 6)
    assert url.startswith(template.page)


@given(z=st.integers(0, 24), x=st.integers(-(2**25), 2**25), y=st.integers(-(2**25), 2**25))
@pytest.mark.parametrize("rows", ["{y}", "{-y}"])
def test_every_place_comes_back_also_left_of_the_origin_and_above(rows: str, z: int, x: int, y: int) -> None:
    """Maps of games count from the middle of their world."""
    template = Template(f"{HOST}/{{z}}/{{x}}/{rows}.png")
    assert template.place(template.url(z, x, y)) == (z, x, y)


@given(z=st.integers(1, 24), data=st.data())
def test_every_quadkey_comes_back(z: int, data: st.DataObject) -> None:
    x, y = (data.draw(st.integers(0, 2**z - 1)) for _ in range(2))
    template = Template(f"{HOST}/{{q}}.png")
    assert template.place(template.url(z, x, y)) == (z, x, y)


@pytest.mark.parametrize(
    ("form", "place", "message"),
    [
        ("{q}.png", (0, 0, 0), "have no quadkey"),
        ("{q}.png", (3, 8, 0), "have no quadkey"),
        ("{q}.png", (3, 0, -1), "have no quadkey"),
        ("{z}/{x}/{y}", (-1, 0, 0), "zoom -1 is coarser than 0"),
    ],
)
def test_some_places_have_no_address(form: str, place: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template(f"{HOST}/{form}").url(*place)


def test_the_quadkey_is_that_of_bings_own_example_and_all_hosts_are_one() -> None:
    """Tile (3, 5) of zoom 3 in "Bing Maps Tile System"."""
    assert Template(f"{HOST}/{{q}}").url(3, 3, 5) == f"{HOST}/213"
    template = Template("https://{s}.example.net/{z}/{x}/{y}.png")
    for host in "abc":
        assert template.place(f"https://{host}.example.net/3/1/6.png?v=2") == (3, 1, 6)


@pytest.mark.parametrize(
    "url",
    [
        f"{HOST}/m/3/1/6.jpg",
        f"{HOST}/m/3/01/6.png",
        f"{HOST}/m/-3/1/6.png",
        f"{HOST}/m/3/1/-0.png",
        f"{HOST}/m/3/1/6.png/",
        f"{HOST}/3/1/6.png",
        "https://other.example.net/m/3/1/6.png",
    ],
)
def test_any_other_address_is_no_tile(url: str) -> None:
    assert Template(f"{HOST}/m/{{z}}/{{x}}/{{y}}.png").place(url) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HOST}/{{z}}/{{x}}.png", "has {z}, {x} and {y}, or"),
        (f"{HOST}/{{x}}.png", "that of a canvas has {x} and {y}"),
        (f"{HOST}/{{z}}.png", "that of a canvas has {x} and {y}"),
        (f"{HOST}/tiles.{{r}}png", "has {z}, {x} and {y}, or"),
        (f"{HOST}/{{z}}/{{x}}/{{Y}}.png", r"'\{Y\}' is not a placeholder; there are \{z\}"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}.png}}", "a brace that belongs to no placeholder"),
        ("https://{z}.example.net/{z}/{x}/{y}.png", "or one in the host's name"),
    ],
)
def test_what_is_no_template_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template(text)
