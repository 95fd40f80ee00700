"""The pictures of heat maps."""

import base64
import re
import struct

import numpy as np

from kb_cli.report.pictures.heatmap import HeatMapPanel, Tick, heat_map


def test_cells_are_squares_in_viewers_that_blur_enlarged_images() -> None:
    panel = HeatMapPanel(title="latency", unit="ns", values=np.arange(72.0).reshape(8, 9))
    svg = heat_map("a chip", [panel], [Tick(0, "pe0")], [Tick(0, "hbm0")])
    cells = base64.b64decode(re.findall(r"base64,([^\"]+)", svg)[0])
    width, height = struct.unpack(">II", cells[16:24])
    # 560 units a side: 8 rows of 70 pixels, 9 columns of 62.
    assert (width, height) == (9 * 62, 8 * 70)
