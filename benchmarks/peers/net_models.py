"""Nets that people serve, with random weights of a fixed seed."""

import torch
import torchvision
from torch import nn
from torch.nn import functional

from models import Transformer


def conv(inputs, outputs, kernel=1, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs), nn.SiLU())


class Stage(nn.Module):
    """Bottlenecks whose results are all joined at the end."""

    def __init__(self, inputs, outputs, depth, shortcut):
        super().__init__()
        half = outputs // 2
        self.shortcut = shortcut
        self.enter = conv(inputs, outputs)
        self.steps = nn.ModuleList(
            nn.Sequential(conv(half, half, 3), conv(half, half, 3))
            for _ in range(depth))
        self.leave = conv((2 + depth) * half, outputs)

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            y = step(parts[-1])
            parts.append(parts[-1] + y if self.shortcut else y)
        return self.leave(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Three max pools in a row, joined."""

    def __init__(self, width):
        super().__init__()
        self.enter = conv(width, width // 2)
        self.leave = conv(2 * width, width)

    def forward(self, x):
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector of YOLO's kind in its smallest size: [N, 3, 640, 640] to
    boxes and classes at three scales."""

    def __init__(self, classes=80):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2),
                                  Stage(32, 32, 1, True), conv(32, 64, 3, 2),
                                  Stage(64, 64, 2, True))
        self.middle = nn.Sequential(conv(64, 128, 3, 2),
                                    Stage(128, 128, 2, True))
        self.top = nn.Sequential(conv(128, 256, 3, 2),
                                 Stage(256, 256, 1, True), Pyramid(256))
        self.up1 = Stage(384, 128, 1, False)
        self.up2 = Stage(192, 64, 1, False)
        self.down1 = conv(64, 64, 3, 2)
        self.join1 = Stage(192, 128, 1, False)
        self.down2 = conv(128, 128, 3, 2)
        self.join2 = Stage(384, 256, 1, False)

        def head(width, between, outputs):
            return nn.Sequential(conv(width, between, 3),
                                 conv(between, between, 3),
                                 nn.Conv2d(between, outputs, 1))

        self.boxes = nn.ModuleList(head(w, 64, 64) for w in (64, 128, 256))
        self.classes = nn.ModuleList(
            head(w, 80, classes) for w in (64, 128, 256))

    def forward(self, x):
        a = self.stem(x)
        b = self.middle(a)
        c = self.top(b)
        up = functional.interpolate
        d = self.up1(torch.cat([up(c, scale_factor=2.0), b], 1))
        e = self.up2(torch.cat([up(d, scale_factor=2.0), a], 1))
        f = self.join1(torch.cat([self.down1(e), d], 1))
        g = self.join2(torch.cat([self.down2(f), c], 1))
        scales = [torch.cat([box(y), kind(y)], 1).flatten(2)
                  for y, box, kind in zip((e, f, g), self.boxes, self.classes)]
        boxes, kinds = torch.cat(scales, 2).split((64, 80), 1)
        boxes = boxes.view(-1, 4, 16, boxes.shape[2])
        boxes = boxes.transpose(1, 2).softmax(1)
        steps = torch.arange(16.0).view(1, 16, 1, 1)
        return torch.cat([(boxes * steps).sum(1), kinds.sigmoid()], 1)


class Decoder(nn.Module):
    """A decoder of GPT-2's smallest size, without its cache. Its tokens come as
    numbers from -1 to 1."""

    def __init__(self, vocabulary=50257, tokens=128):
        super().__init__()
        self.vocabulary = vocabulary
        self.decoder = Transformer(width=768, heads=12, layers=12,
                                   tokens=tokens, vocabulary=vocabulary)
        self.decoder.head = nn.Linear(768, vocabulary, bias=False)

    def forward(self, x):
        return self.decoder((x.abs() % 1 * (self.vocabulary - 1)).long())


def of_torchvision(name, **options):
    return lambda: getattr(torchvision.models, name)(weights=None, **options)


def inception():
    return torchvision.models.inception_v3(weights=None, init_weights=False,
                                           aux_logits=False)


def googlenet():
    return torchvision.models.googlenet(weights=None, init_weights=False,
                                        aux_logits=False)


IMAGE = [3, 224, 224]

# name -> (maker, shape of one example)
NETS = {
    "efficientnet_b0": (of_torchvision("efficientnet_b0"), IMAGE),
    "mnasnet1_0": (of_torchvision("mnasnet1_0"), IMAGE),
    "regnet_y_400mf": (of_torchvision("regnet_y_400mf"), IMAGE),
    "shufflenet_v2_x1_0": (of_torchvision("shufflenet_v2_x1_0"), IMAGE),
    "inception_v3": (inception, [3, 299, 299]),
    "convnext_tiny": (of_torchvision("convnext_tiny"), IMAGE),
    "resnext50_32x4d": (of_torchvision("resnext50_32x4d"), IMAGE),
    "googlenet": (googlenet, IMAGE),
    "vit_b_16": (of_torchvision("vit_b_16"), IMAGE),
    "swin_t": (of_torchvision("swin_t"), IMAGE),
    "maxvit_t": (of_torchvision("maxvit_t"), IMAGE),
    "r3d_18": (lambda: torchvision.models.video.r3d_18(weights=None),
               [3, 16, 112, 112]),
    "yolo": (Detector, [3, 640, 640]),
    "gpt2": (Decoder, [128]),
}
