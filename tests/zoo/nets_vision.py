"""Nets of torchvision with few classes, at small sizes."""
import torch
import torchvision
from torch import nn
from torchvision import models, ops

from entry import Net, images, numbers


def vision(name, size=64, shape=None, **options):
    arguments = options.pop("arguments", {"num_classes": 10})
    function = getattr(models, options.pop("function", name))

    def make():
        return function(weights=None, **arguments)
    return Net(name, "torchvision", make, shape or images(3, size), **options)


def with_small_head(name, channels, **options):
    """Returns a net without the wide layers, which would be most of its weights."""
    def make():
        net = getattr(models, name)(weights=None)
        net.avgpool, net.classifier = nn.Identity(), nn.Linear(channels, 10)
        return net
    return Net(name, "torchvision", make, images(3, 64 if name == "alexnet" else 32),
               **options)


class Out(nn.Module):
    """Gives the output of a segmentation net, which is in a dictionary."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def segmentation(name):
    function = getattr(models.segmentation, name)
    return Net(name, "torchvision",
               lambda: Out(function(weights=None, weights_backbone=None,
                                    num_classes=3)), images(3, 32))


def vit():
    net = models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32,
        mlp_dim=64, num_classes=10)
    # Its head begins with zeros, with which every answer is right.
    nn.init.normal_(net.heads.head.weight, std=0.1)
    return net


def swin():
    return models.SwinTransformer(
        patch_size=[2, 2], embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=[4, 4], num_classes=10)


def video(name):
    function = getattr(models.video, name)
    return Net(name, "torchvision", lambda: function(weights=None, num_classes=5),
               numbers(3, 4, 16, 16))


class Fpn(nn.Module):
    """A feature pyramid with a head of scores and boxes at each level."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1)
            for a, b in ((3, 16), (16, 32), (32, 64)))
        self.pyramid = ops.FeaturePyramidNetwork([16, 32, 64], 16)
        self.scores = nn.Conv2d(16, 6, 3, padding=1)
        self.boxes = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        features = {}
        for i, level in enumerate(self.levels):
            x = level(x).relu()
            features[str(i)] = x
        found = self.pyramid(features).values()
        rows = [nn.functional.softplus(self.boxes(f)).flatten(2) for f in found]
        rows += [self.scores(f).sigmoid().flatten(2) for f in found]
        return torch.cat([r.flatten(1) for r in rows], 1)


class Nms(nn.Module):
    """A head whose number of boxes depends on the numbers."""

    def forward(self, boxes, scores):
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs()], 1)
        return ops.nms(corners, scores[:, 0], 0.5)


class RoiAlign(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        boxes = torch.tensor([[0, 1.0, 1.0, 9.0, 9.0], [0, 0.0, 2.0, 7.0, 5.0]])
        return ops.roi_align(self.conv(x), boxes, 4, 1.0, 2, aligned=True)


class SsdHead(nn.Module):
    """Decodes boxes relative to anchors, as SSD and YOLO do."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16),
                                  nn.LeakyReLU(0.1), nn.Conv2d(16, 15, 1))
        ys, xs = torch.meshgrid(torch.arange(16.0), torch.arange(16.0),
                                indexing="ij")
        self.register_buffer("grid", torch.stack([xs, ys], -1).view(1, 1, 16, 16, 2))
        self.register_buffer("anchors", torch.rand(1, 3, 1, 1, 2) + 0.5)

    def forward(self, x):
        y = self.body(x)
        y = y.view(y.shape[0], 3, 5, 16, 16).permute(0, 1, 3, 4, 2)
        center = (y[..., :2].sigmoid() + self.grid) / 16
        size = y[..., 2:4].clamp(max=4).exp() * self.anchors
        return torch.cat([center, size, y[..., 4:].sigmoid()], -1).flatten(1, 3)


def small_boxes(rows):
    return torch.rand(12, 4) * 8, torch.rand(12, 1)


NETS = [
    Net("fpn_head", "detector", Fpn, images(3, 32)),
    Net("ssd_head", "detector", SsdHead, images(3, 32)),
    Net("roi_align_head", "detector", RoiAlign, images(3, 12), opset=16,
        untrained="the boxes are those of one image", whole=True),
    Net("nms_head", "detector", Nms, small_boxes,
        untrained="indices have no gradient", whole=True),
    Net("vit_small", "torchvision", vit, images(3, 32)),
    Net("swin_small", "torchvision", swin, images(3, 32)),
    with_small_head("alexnet", 256), vision("squeezenet1_0"), vision("squeezenet1_1"),
    vision("mobilenet_v3_small", 32), vision("shufflenet_v2_x0_5", 32),
    vision("shufflenet_v2_x1_0", 32), vision("mnasnet0_5", 32), vision("mobilenet_v2", 32),
    vision("mnasnet1_0", 32), vision("efficientnet_b0", 32), vision("resnet18"),
    vision("regnet_y_400mf", 32), vision("regnet_x_400mf", 32),
    vision("mobilenet_v3_large", 32), segmentation("lraspp_mobilenet_v3_large"),
    segmentation("deeplabv3_mobilenet_v3_large"), vision("densenet121", 32),
    vision("googlenet", 64, arguments={"num_classes": 10, "aux_logits": False,
                                       "init_weights": True}),
    with_small_head("vgg11", 512, learning_rate=0.001), with_small_head("vgg11_bn", 512),
    video("mc3_18"), vision("resnet34", 32), vision("resnet50", 32),
    vision("convnext_tiny", 32), segmentation("fcn_resnet50"),
    vision("resnext50_32x4d", 32), vision("efficientnet_v2_s", 32), video("r3d_18"),
    video("r2plus1d_18"),
    vision("inception_v3", 80, arguments={"num_classes": 10,
                                          "aux_logits": False,
                                          "init_weights": True}),
]
VERSION = torchvision.__version__
