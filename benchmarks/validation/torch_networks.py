"""Networks in torch, of published sizes, which `networks.py` exports to ONNX. kb does not know all operators of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


def convolution(channels: int, filters: int, window: int, stride: int = 1, groups: int = 1, last: Any = None) -> Any:
    layer = nn.Conv2d(channels, filters, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(filters), *([] if last is None else [last]))


class Basic(nn.Module):
    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(channels, filters, 3, stride, last=nn.ReLU())
        self.second = convolution(filters, filters, 3)
        self.short = convolution(channels, filters, 1, stride) if channels != filters else nn.Identity()

    def forward(self, x: Any) -> Any:
        return functional.relu(self.second(self.first(x)) + self.short(x))


class Inverted(nn.Module):
    def __init__(self, channels: int, filters: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = channels * factor
        grown = [convolution(channels, wide, 1, last=nn.ReLU6())] if factor > 1 else []
        depthwise = convolution(wide, wide, 3, stride, wide, nn.ReLU6())
        self.layers = nn.Sequential(*grown, depthwise, convolution(wide, filters, 1))
        self.adds = stride == 1 and channels == filters

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.adds else self.layers(x)


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, tokens, hidden = x.shape
        size = hidden // self.heads
        q, k, v = (each.view(batch, tokens, self.heads, size).transpose(1, 2) for each in self.qkv(x).split(hidden, -1))
        found = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.is_causal)
        return self.out(found.transpose(1, 2).reshape(batch, tokens, hidden))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.types = (nn.Embedding(n, 768) for n in (30522, 512, 2))
        self.norms = nn.ModuleList(nn.LayerNorm(768) for _ in range(3))
        self.attention = Attention(768, 12, False)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, ids: Any, types: Any, mask: Any) -> Any:
        x = self.norms[0](self.words(ids) + self.places(torch.arange(ids.shape[1])) + self.types(types))
        x = self.norms[1](x + self.attention(x, (1.0 - mask[:, None, None, :].float()) * -10000.0))
        return self.norms[2](x + self.down(functional.gelu(self.up(x))))


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.norms = nn.ModuleList(nn.LayerNorm(768) for _ in range(3))
        self.attention = Attention(768, 12, True)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)
        self.head = nn.Linear(768, 50257, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.attention(self.norms[0](x))
        x = x + self.down(functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))
        return self.head(self.norms[2](x))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        relu = nn.ReLU()
        sizes = [(3, 32), (32, 64), (64, 128), (128, 64), (96, 32)]
        self.layers = nn.ModuleList(convolution(*each, 3, last=relu) for each in sizes)
        self.up, self.wider, self.out = (
            nn.ConvTranspose2d(128, 64, 2, 2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(32, 2, 1),
        )

    def forward(self, x: Any) -> Any:
        a = self.layers[0](x)
        b = self.layers[1](functional.max_pool2d(a, 2))
        y = self.up(self.layers[2](functional.max_pool2d(b, 2)))
        y = self.layers[3](torch.cat([y, b], 1))
        return torch.sigmoid(self.out(self.layers[4](torch.cat([self.wider(y), a], 1))))


def resnet() -> Any:
    layers, channels = [convolution(3, 64, 7, 2, last=nn.ReLU()), nn.MaxPool2d(3, 2, 1)], 64
    for filters in (64, 128, 256, 512):
        layers += [Basic(channels, filters, 1 if filters == channels else 2), Basic(filters, filters, 1)]
        channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mobile() -> Any:
    layers, channels = [convolution(3, 32, 3, 2, last=nn.ReLU6())], 32
    stages = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for factor, filters, count, stride in stages:
        for number in range(count):
            layers.append(Inverted(channels, filters, stride if number == 0 else 1, factor))
            channels = filters
    last = [
        convolution(320, 1280, 1, last=nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    ]
    return nn.Sequential(*layers, *last)


def perceptron() -> Any:
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.SiLU(), nn.Linear(256, 10), nn.Softmax(-1)]
    return nn.Sequential(*layers)


def networks() -> dict[str, Any]:
    """For each network a function that makes it, and its inputs."""
    pixels, ids = torch.zeros(1, 3, 224, 224), torch.zeros(1, 128, dtype=torch.int64)
    return {
        "mlp": (perceptron, (torch.zeros(8, 784),)),
        "resnet18": (resnet, (pixels,)),
        "mobilenet_v2": (mobile, (pixels,)),
        "bert_block": (Bert, (ids, ids, ids)),
        "gpt2_block": (Gpt2, (ids,)),
        "unet": (UNet, (torch.zeros(1, 3, 64, 64),)),
    }
