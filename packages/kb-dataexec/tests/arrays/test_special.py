"""Special functions against values of 40 digits, and against Python's own."""

import math

import numpy as np
import pytest

from kb_dataexec.arrays import special
from kb_dataexec.arrays.functions import FUNCTIONS

VALUES = {
    "erfcx": {
        -2.5: 1035.814842972623,
        0: 1.0,
        0.5: 0.6156903441929259,
        3: 0.17900115118138996,
        40: 0.014100335983377814,
    },
    "erfc": {
        -3: 1.9999779095030015,
        0.25: 0.7236736098317631,
        1: 0.15729920705028513,
        5.5: 7.357847917974398e-15,
        9.5: 3.7692144856548797e-41,
    },
    "normcdf": {
        -12: 1.776482112077679e-33,
        -1.5: 0.06680720126885807,
        0: 0.5,
        0.75: 0.7733726476231318,
        4: 0.9999683287581669,
    },
    "lgamma": {
        -2.5: -0.056243716497674054,
        -0.25: 1.589575312551186,
        0.125: 2.0194183575537963,
        1.5: -0.12078223763524522,
        30: 71.25703896716801,
        1000000.0: 12815504.569147611,
    },
    "tgamma": {
        -2.5: -0.9453087204829419,
        0.125: 7.533941598797612,
        1.5: 0.886226925452758,
        6: 120.0,
        30: 8.841761993739702e30,
    },
    "j0": {
        0: 1.0,
        1.5: 0.5118276717359181,
        -7.75: 0.22523406912010668,
        8.25: 0.10920747150610137,
        300: -0.03329855487630567,
    },
    "j1": {
        0: 0.0,
        1.5: 0.5579365079100996,
        -7.75: -0.1916025921891178,
        8.25: 0.2622035519927438,
        300: -0.03188743137749995,
    },
    "y0": {
        0.125: -1.3896806251438405,
        1.5: 0.38244892379775886,
        7.75: 0.17676987751364717,
        8.25: 0.2551496050986449,
        300: -0.0318318897300034,
    },
    "y1": {
        0.125: -5.199936112534775,
        1.5: -0.4123086269739113,
        7.75: -0.21433222865940804,
        8.25: -0.0939944870646345,
        300: 0.03324554812131022,
    },
    "cyl_bessel_i0": {
        0: 1.0,
        -1.5: 1.646723189772891,
        7.75: 338.5137537472759,
        8.25: 540.325079074807,
        60: 5.894077055609801e24,
    },
    "cyl_bessel_i1": {
        0: 0.0,
        -1.5: -0.9816664285779075,
        7.75: 315.85248092400343,
        8.25: 506.4338383076455,
        60: 5.844751588390468e24,
    },
    "erfinv": {
        -0.999: -2.3267537655135246,
        -0.25: -0.2253120550121781,
        0: 0.0,
        0.5: 0.4769362762044699,
        0.96875: 1.523019401996956,
    },
    "erfcinv": {
        7.888609052210118e-31: 8.163048919217452,
        0.0625: 1.3171503349861307,
        0.75: 0.2253120550121781,
        1: 0.0,
        1.9375: -1.3171503349861307,
    },
    "normcdfinv": {
        8.271806125530277e-25: -10.21756993531259,
        0.0625: -1.5341205443525463,
        0.375: -0.31863936396437514,
        0.5: 0.0,
        0.9375: 1.5341205443525463,
    },
}
"""Source: mpmath 1.4.1, with 30 digits."""


def apply(op, *arrays):
    with np.errstate(all="ignore"):
        return FUNCTIONS[op].apply(*arrays)


def of(op, *arguments):
    return apply(op, *(np.array([each], np.float64) for each in arguments))[0]


@pytest.mark.parametrize("op", VALUES)
def test_a_special_function_has_the_precision_of_f64(op):
    x, expected = (np.array(list(each), np.float64) for each in (VALUES[op], VALUES[op].values()))
    np.testing.assert_allclose(apply(op, x), expected, rtol=1e-13, atol=0)
    narrow = apply(op, x.astype(np.float32))
    assert narrow.dtype == np.float32


def test_every_special_function_has_values():
    assert {*special.UNARY} == {*VALUES, "sinpi", "cospi", "exp10"}


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-30, 20.0])
def test_they_agree_with_python(scale):
    x = scale * np.random.default_rng(1).standard_normal(400)
    for op, function in (("erfc", math.erfc), ("tgamma", math.gamma), ("lgamma", math.lgamma)):
        expected = [function(each) for each in x]
        np.testing.assert_allclose(apply(op, x), expected, rtol=2e-13, atol=1e-14 if op == "lgamma" else 0)


ORDERS = {
    "jn": {
        (0, 1.5): 0.5118276717359181,
        (1, -7.75): -0.1916025921891178,
        (2, 0.125): 0.0019505831099296928,
        (3, 2.5): 0.21660039103911352,
        (5, -8.25): -0.128071650410632,
        (7, 7.0): 0.2335835695056961,
        (10, 0.001): 2.6911443943049994e-40,
        (20, 30.5): 0.06538137710952445,
        (30, 12.0): 2.552259043034417e-10,
        (100, 90.0): 0.002602130581996329,
        (3, 1e-30): 2.083333333333334e-92,
    },
    "yn": {
        (0, 1.5): 0.38244892379775886,
        (1, 7.75): -0.21433222865940804,
        (2, 0.125): -81.80929717541255,
        (3, 2.5): -0.756055496753671,
        (5, 8.25): 0.28152921270165615,
        (7, 7.0): -0.40537101860676805,
        (10, 0.001): -1.1828049377990414e38,
        (20, 30.5): -0.15270693812053943,
        (30, 12.0): -45366214.38603198,
        (100, 90.0): -2.8307771387185636,
    },
}


@pytest.mark.parametrize("op", ORDERS)
def test_bessel_functions_of_any_order_have_the_precision_of_f64(op):
    n, x = (np.array(each, np.float64) for each in zip(*ORDERS[op], strict=True))
    np.testing.assert_allclose(apply(op, n, x), list(ORDERS[op].values()), rtol=3e-13)
    for each, expected in ORDERS[op].items():
        assert of(op, *each) == pytest.approx(expected, rel=3e-13)
    narrow = apply(op, n.astype(np.float32), x.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, np.float32(list(ORDERS[op].values())), rtol=2e-5)


@pytest.mark.parametrize("order", [0, 1])
def test_orders_0_and_1_are_the_functions_of_these_orders(order):
    x = np.linspace(-40, 40, 201)
    np.testing.assert_allclose(apply("jn", np.float64([order]), x), apply(f"j{order}", x), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(apply("yn", np.float64([order]), x), apply(f"y{order}", x))


def test_the_ends_of_bessel_functions():
    inf, nan = math.inf, math.nan
    for (op, n, x), expected in {
        ("jn", 2, 0): 0, ("jn", 0, 0): 1, ("jn", 2, inf): 0, ("jn", 3, -inf): 0, ("jn", -1, 2): nan,
        ("jn", 2, nan): nan, ("jn", 2e6, 1): nan, ("jn", nan, 1): nan, ("jn", 60, 1e-38): 0, ("yn", 2, 0): -inf,
        ("yn", 2, -1): nan, ("yn", 2, inf): 0, ("yn", -1, 2): nan, ("yn", 2, nan): nan, ("yn", 60, 1e-38): -inf,
        ("yn", inf, 1): nan,
    }.items():  # fmt: skip
        assert of(op, n, x) == pytest.approx(expected, abs=0, nan_ok=True), f"{op} of {n}, {x}"
    assert apply("jn", np.zeros((0,)), np.zeros((0,))).shape == (0,)


def test_the_ends_of_special_functions():
    inf, nan = math.inf, math.nan
    for op, ends in {
        "erfc": {inf: 0, -inf: 2},
        "erfinv": {1: inf, -1: -inf, 1.5: nan},
        "erfcinv": {0: inf, 2: -inf, -0.5: nan, 2.5: nan},
        "normcdfinv": {0: -inf, 1: inf, -1: nan},
        "lgamma": {inf: inf, -inf: inf, 0: inf, -3: inf, 1: 0, 2: 0},
        "tgamma": {inf: inf, 0: inf, -3: nan, 200: inf},
        "y0": {0: -inf, -1: nan, inf: 0},
        "y1": {0: -inf, -1: nan, inf: 0},
        "j0": {inf: 0, -inf: 0},
        "j1": {inf: 0},
        "cyl_bessel_i0": {-inf: inf},
        "cyl_bessel_i1": {-inf: -inf},
        "sinpi": {0.5: 1, 1: 0, -1.5: 1, 1e20: 0, inf: nan},
        "cospi": {0.5: 0, 1: -1, -1.5: 0, 1e20: 1, inf: nan},
        "logb": {0: -inf, inf: inf, -inf: inf, 0.75: -1, -4: 2, nan: nan},
        "round": {0.5: 1, -0.5: -1, 2.5: 3, 0.49999999999999994: 0, inf: inf, nan: nan},
    }.items():
        for x, expected in ends.items():
            assert of(op, x) == pytest.approx(expected, abs=0, nan_ok=True), f"{op} of {x}"
    assert of("tgamma", -0.0) == -inf
    for op in VALUES:
        assert math.isnan(of(op, nan)), op


def test_the_remainder_is_that_of_ieee_754():
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(3000) * 10.0 ** rng.integers(-20, 20, 3000) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    halves, quarters = (rng.integers(1, 40, 3000).astype(np.float32) / 4 for _ in range(2))
    for a, b in ((x, y), (halves, quarters), (-halves, quarters), (halves, -quarters)):
        expected = [math.remainder(float(one), float(two)) for one, two in zip(a, b, strict=True)]
        assert special.ieee_remainder(a, b).tolist() == np.float32(expected).tolist()
    assert of("remainder", 3, math.inf) == 3
    assert [math.isnan(of("remainder", *each)) for each in ((math.inf, 3), (3, 0), (math.nan, 1))] == [True] * 3


def test_powers_of_two_scale_without_rounding_in_between():
    x, n = np.float32([1.5, 3, 1e38, 1, 5]), np.float32([3, -150, 4, 1e30, 0.9])
    with np.errstate(all="ignore"):
        assert special.scaled_by_power(x, n).tolist() == [12.0, float(np.float32(3 * 2.0**-150)), math.inf, math.inf, 5]


def test_a_positive_difference_is_no_less_than_0():
    inf = math.inf
    x, y = np.float32([3, 2, inf, 2, inf]), np.float32([1, 3, inf, math.nan, 1])
    with np.errstate(all="ignore"):
        found = special.positive_difference(x, y).tolist()
    assert found[:3] == [2, 0, 0]
    assert math.isnan(found[3])
    assert found[4] == inf
