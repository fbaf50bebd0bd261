"""Image to image, tabular, quantised and 16-bit nets."""
import math

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

import convert
import nets_sequence
from entry import Net, images, numbers


def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b),
                         nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, upsample):
        super().__init__()
        self.a, self.b, self.c = double(3, 8), double(8, 16), double(16, 32)
        if upsample:
            self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear",
                                                align_corners=False),
                                    nn.Conv2d(32, 16, 1))
        else:
            self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.up2 = nn.ConvTranspose2d(16, 8, 2, 2)
        self.d, self.e, self.out = double(32, 16), double(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        y = self.up(self.c(F.max_pool2d(b, 2)))
        y = self.up2(self.d(torch.cat([y, b], 1)))
        return self.out(self.e(torch.cat([y, a], 1)))


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(),
                                  nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.body(x) + F.interpolate(x, scale_factor=2, mode="bicubic",
                                            align_corners=False)


class Styled(nn.Module):
    """Reflection pads and instance norms, as nets that transfer a style have."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True),
            nn.ReLU(), nn.Upsample(scale_factor=2, mode="nearest"),
            nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3), nn.Sigmoid())

    def forward(self, x):
        return self.body(x)


class Squeeze(nn.Module):
    """Channels weighed by a gate (SE), then places (CBAM)."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.gate = nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 16),
                                  nn.Hardsigmoid())
        self.place, self.head = nn.Conv2d(2, 1, 3, padding=1), nn.Linear(16, 5)

    def forward(self, x):
        x = F.hardswish(self.norm(self.first(x)))
        x = x * self.gate(x.mean((2, 3)))[:, :, None, None]
        seen = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return self.head((x * self.place(seen).sigmoid()).mean((2, 3)))


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8),
                                indexing="ij")
        self.register_buffer("grid", torch.stack([xs, ys, torch.ones(8, 8)], -1).view(64, 3))
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        theta = self.place(x).view(-1, 2, 3) * 0.1
        grid = (self.grid @ theta.transpose(1, 2)).view(-1, 8, 8, 2)
        return self.head(F.grid_sample(x, grid, align_corners=False).flatten(1))


class Waves(nn.Module):
    """A field of a place, from sines of rising frequency (NeRF)."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 + 24, 32), nn.ReLU(), nn.Linear(32, 4))
        self.register_buffer("rates", 2.0 ** torch.arange(4) * math.pi)

    def forward(self, x):
        angles = (x.unsqueeze(-1) * self.rates).flatten(1)
        return self.net(torch.cat([x, angles.sin(), angles.cos()], 1))


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x):
        return self.c((3 * self.b((3 * self.a(x)).sin())).sin())


class WideAndDeep(nn.Module):
    """Scores from four columns of categories, each with its table."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(4))
        self.wide = nn.ModuleList(nn.Embedding(20, 1) for _ in range(4))
        self.deep = nn.Sequential(nn.Linear(32 + 6, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, ids):
        v = torch.stack([t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        wide = sum(t(ids[:, i]) for i, t in enumerate(self.wide))
        pairs = (v @ v.transpose(1, 2)).flatten(1)
        where = torch.tensor([i * 4 + j for i in range(4) for j in range(i)])
        return self.deep(torch.cat([v.flatten(1), pairs[:, where]], 1)) + wide


class Sparsemax(nn.Module):
    def forward(self, x):
        z = x.sort(-1, descending=True)[0]
        k = torch.arange(1, x.shape[-1] + 1)
        total = z.cumsum(-1)
        support = (1 + k * z > total).to(x.dtype)
        count = support.sum(-1, keepdim=True)
        return (x - ((z * support).sum(-1, keepdim=True) - 1) / count).clamp(min=0)


class LogisticRegression(nn.Module):
    """A scaler and scores, as a pipeline of scikit-learn."""

    def __init__(self):
        super().__init__()
        self.mean, self.scale = nn.Parameter(torch.randn(7)), nn.Parameter(torch.rand(7) + 1)
        self.linear = nn.Linear(7, 3)

    def forward(self, x):
        return self.linear((x - self.mean) / self.scale)


class Kernel(nn.Module):
    """A support vector machine with Gaussian kernels."""

    def __init__(self):
        super().__init__()
        self.vectors, self.weights = nn.Parameter(torch.randn(15, 7)), nn.Linear(15, 2)

    def forward(self, x):
        distance = (x.unsqueeze(1) - self.vectors).pow(2).sum(-1)
        return self.weights((-0.1 * distance).exp())


class Neighbours(nn.Module):
    """The mean label of the three nearest rows."""

    def __init__(self):
        super().__init__()
        self.rows, self.labels = nn.Parameter(torch.randn(20, 7)), nn.Parameter(torch.rand(20, 3))

    def forward(self, x):
        places = torch.cdist(x, self.rows).topk(3, largest=False)[1]
        return self.labels[places].mean(1)


class Means(nn.Module):
    """The distances to the centers of k-means."""

    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(4, 7))

    def forward(self, x):
        cross = x @ self.centers.t()
        return (x.pow(2).sum(1, keepdim=True) - 2 * cross
                + self.centers.pow(2).sum(1)).clamp(min=0).sqrt()


class Bayes(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_variance = (nn.Parameter(torch.randn(3, 7)),
                                        nn.Parameter(torch.randn(3, 7) * 0.1))

    def forward(self, x):
        d = (x.unsqueeze(1) - self.mean).pow(2) / self.log_variance.exp()
        return F.log_softmax(-0.5 * (d + self.log_variance).sum(-1), -1)


class Components(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.axes = nn.Parameter(torch.randn(7)), nn.Parameter(torch.randn(7, 3))

    def forward(self, x):
        return (x - self.mean) @ self.axes


class FakeQuantized(nn.Module):
    """Weights and activations of 8 bits, as quantisation in training leaves them."""

    def __init__(self, convolution):
        super().__init__()
        first = nn.Conv2d(3, 8, 3, padding=1) if convolution else nn.Linear(12, 16)
        self.layers = nn.ModuleList([first, nn.Linear(8 * 64 if convolution else 16, 4)])

    @staticmethod
    def rounded(x, scale, low, high):
        zero = 0 if low < 0 else 128
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.rounded(x if i == 0 else x.flatten(1), 0.03, 0, 255)
            weight = self.rounded(layer.weight, 0.01, -128, 127)
            if weight.dim() == 4:
                x = F.conv2d(x, weight, layer.bias, padding=1).relu()
            else:
                x = F.linear(x, weight, layer.bias)
        return x


class AsImage(nn.Module):
    def forward(self, x):
        return x[:, :, None, None]


def generator():
    return nn.Sequential(AsImage(), nn.ConvTranspose2d(16, 32, 4),
                         nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1),
                         nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1),
                         nn.Tanh())


def discriminator():
    return nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1),
                         nn.BatchNorm2d(16), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(256, 2))


def mlp():
    return nn.Sequential(nn.Linear(12, 32), nn.SELU(), nn.LayerNorm(32), nn.Linear(32, 32),
                         nn.Mish(), nn.BatchNorm1d(32), nn.Linear(32, 5))


def autoencoder():
    return nn.Sequential(nn.Linear(20, 8), nn.ELU(), nn.Linear(8, 3), nn.Softplus(),
                         nn.Linear(3, 8), nn.CELU(), nn.Linear(8, 20))


def conv1d():
    return nn.Sequential(nn.Conv1d(2, 8, 5, padding=2), nn.BatchNorm1d(8), nn.PReLU(),
                         nn.MaxPool1d(2), nn.Conv1d(8, 8, 3, groups=4), nn.AdaptiveAvgPool1d(1),
                         nn.Flatten(), nn.Linear(8, 3))


def conv3d():
    return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(),
                         nn.MaxPool3d(2), nn.Flatten(), nn.Linear(4 * 64, 3))


def half(name, make, inputs, **options):
    return Net(name, "fp16", make, inputs, tolerance=2e-2, convert=convert.to_float16, **options)


def tabular(name, make, **options):
    return Net(name, "tabular", make, numbers(7), **options)


NETS = [
    Net("unet", "image", lambda: UNet(False), images(3, 32)),
    Net("unet_bilinear", "image", lambda: UNet(True), images(3, 32)),
    Net("super_resolution", "image", SuperResolution, images(1, 12)),
    Net("style_transfer", "image", Styled, images(3, 16)),
    Net("squeeze_excitation", "image", Squeeze, images(3, 12)),
    Net("spatial_transformer", "image", SpatialTransformer, images(1, 8), opset=16),
    Net("gan_generator", "image", generator, numbers(16)),
    Net("gan_discriminator", "image", discriminator, images(3, 16)),
    Net("conv1d", "image", conv1d, numbers(2, 40)),
    Net("conv3d", "image", conv3d, numbers(1, 8, 8, 8)),
    Net("nerf", "image", Waves, numbers(3)),
    Net("siren", "image", Siren, numbers(2)),
    Net("mlp", "tabular", mlp, numbers(12)),
    Net("autoencoder", "tabular", autoencoder, numbers(20)),
    Net("wide_and_deep", "tabular", WideAndDeep, lambda rows: (torch.randint(0, 20, (rows, 4)),)),
    Net("sparsemax", "tabular", lambda: nn.Sequential(nn.Linear(7, 6), Sparsemax()), numbers(7)),
    tabular("logistic_regression", LogisticRegression),
    tabular("svm_rbf", Kernel), tabular("nearest_neighbours", Neighbours),
    tabular("k_means", Means), tabular("gaussian_bayes", Bayes), tabular("pca", Components),
    Net("qdq_mlp", "quantised", lambda: FakeQuantized(False), numbers(12), tolerance=1e-2,
        untrained="rounding has no gradient in the file"),
    Net("qdq_cnn", "quantised", lambda: FakeQuantized(True), images(3, 8), tolerance=1e-2,
        untrained="rounding has no gradient in the file"),
    Net("dynamic_mlp", "quantised",
        lambda: nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5)), numbers(12),
        tolerance=5e-2, convert=convert.to_dynamic_quantized,
        untrained="integers have no gradient"),
    Net("dynamic_encoder", "quantised",
        lambda: nets_sequence.Block(nets_sequence.Attention(), first=False),
        numbers(nets_sequence.LENGTH, nets_sequence.WIDTH), tolerance=5e-2,
        convert=convert.to_dynamic_quantized, untrained="integers have no gradient"),
    half("mlp_fp16", mlp, numbers(12)),
    half("conv1d_fp16", conv1d, numbers(2, 40)),
    half("resnet18_fp16",
         lambda: torchvision.models.resnet18(weights=None, num_classes=10), images(3, 32)),
    half("encoder_fp16", lambda: nets_sequence.Block(nets_sequence.Attention()),
         numbers(nets_sequence.LENGTH, nets_sequence.WIDTH)),
]
