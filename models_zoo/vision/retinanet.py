"""RetinaNet on a ResNet with feature pyramid, down to the boxes that are left after NMS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import ResNetBackbone, ResNetConfig

from compile_hud.models_zoo.building.inputs import images, in_memory_format, seeded_weights
from compile_hud.models_zoo.vision.resnet_blocks import scale_branches

# Three scales and three ratios of sides, as published.
SCALES = tuple(2 ** (step / 3) for step in range(3))
RATIOS = (0.5, 1.0, 2.0)
NUM_ANCHORS = len(SCALES) * len(RATIOS)
# The side of an anchor in steps of its map.
ANCHOR_SIDE = 4
# The maps are smaller than the image by these powers of two.
LEVELS = (3, 4, 5, 6, 7)
MAX_LOG_SCALE = math.log(1000 / 16)
IOU_THRESHOLD = 0.5
# The published 0.05 suits trained weights, whose scores begin at 0.01.
SCORE_THRESHOLD = 0.5
HEAD_DEPTH = 4
# A block's weight over its shortcut, as in `detr`: at 1 untrained blocks double their sum.
BRANCH_SCALE = 0.25
# The cells of an image in which the boxes are counted.
GRID = 8


@torch.library.custom_op("compile_hud::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of the boxes that no better one overlaps, best first.

    Their number depends on the data. As in torchvision, which need not be installed, the overlaps
    are computed on the device and the choice is made on the CPU.
    """
    order = scores.argsort(descending=True, stable=True)
    overlaps = (_iou(boxes[order]) > iou_threshold).cpu()
    is_left = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if is_left[index]:
            is_left[index + 1 :] &= ~overlaps[index, index + 1 :]
    return order[is_left.to(order.device)]


@nms.register_fake
def _(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    del scores, iou_threshold
    num_left = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(num_left, dtype=torch.int64)


def _iou(boxes: Tensor) -> Tensor:
    """Return the intersection over union of each pair of `boxes`, (n, 4) as x0, y0, x1, y1."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (areas[:, None] + areas[None] - shared)


class Pyramid(nn.Module):
    """Five maps of one width from three of a backbone, each half as large as the one before."""

    def __init__(self, channels: tuple[int, ...], *, size: int) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Conv2d(each, size, 1) for each in channels)
        self.outer = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for _ in channels)
        self.sixth = nn.Conv2d(size, size, 3, stride=2, padding=1)
        self.seventh = nn.Conv2d(size, size, 3, stride=2, padding=1)

    def forward(self, maps: tuple[Tensor, ...]) -> list[Tensor]:
        merged = [layer(each) for layer, each in zip(self.inner, maps, strict=True)]
        for index in reversed(range(len(merged) - 1)):
            larger = F.interpolate(merged[index + 1], size=merged[index].shape[-2:])
            merged[index] = merged[index] + larger
        pyramid = [layer(each) for layer, each in zip(self.outer, merged, strict=True)]
        pyramid.append(self.sixth(pyramid[-1]))
        pyramid.append(self.seventh(pyramid[-1].relu()))
        return pyramid


class Head(nn.Module):
    """Convolutions and a projection that all maps share: (batch, anchors, values)."""

    def __init__(self, num_values: int, *, size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(HEAD_DEPTH):
            convolution = nn.Conv2d(size, size, 3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            layers += [convolution, nn.ReLU()]
        self.layers = nn.Sequential(
            *layers, nn.Conv2d(size, NUM_ANCHORS * num_values, 3, padding=1)
        )
        self.num_values = num_values

    def forward(self, pyramid: list[Tensor]) -> Tensor:
        rows = [self.layers(each).permute(0, 2, 3, 1).flatten(1) for each in pyramid]
        values: Tensor = torch.cat(rows, dim=1).unflatten(1, (-1, self.num_values))
        return values


class AnchorDetector(nn.Module):
    """RetinaNet that returns for each image the scores of its boxes and where they lie.

    It is (batch, boxes + cells): the scores in order, 0 where there are fewer boxes, and their sum
    in each cell of a grid. Rounding may exchange two boxes of nearly the same score, which hardly
    changes either.
    """

    anchors: Tensor

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.num_candidates, self.num_boxes = config["num_candidates"], config["num_boxes"]
        self.num_classes, self.side = config["num_classes"], config["image_size"]
        channels = tuple(config["hidden_sizes"])
        self.backbone = ResNetBackbone(
            ResNetConfig(
                embedding_size=config["embedding_size"],
                hidden_sizes=list(channels),
                depths=list(config["depths"]),
                layer_type=config["layer_type"],
                out_features=["stage2", "stage3", "stage4"],
            )
        )
        scale_branches(self.backbone, BRANCH_SCALE)
        size = config["pyramid_size"]
        self.pyramid = Pyramid(channels[1:], size=size)
        self.classes = Head(self.num_classes, size=size)
        self.boxes = Head(4, size=size)
        self.register_buffer("anchors", _anchors(self.side))

    def forward(self, pixel_values: Tensor) -> Tensor:
        pyramid = self.pyramid(self.backbone(pixel_values).feature_maps)
        logits, offsets = self.classes(pyramid), self.boxes(pyramid)
        # As in torchvision, images go through the rest one by one.
        return torch.stack([self._detect(*each) for each in zip(logits, offsets, strict=True)])

    def _detect(self, logits: Tensor, offsets: Tensor) -> Tensor:
        best = logits.sigmoid().flatten().topk(self.num_candidates)
        # From here on the number of boxes depends on the image.
        likely = (best.values > SCORE_THRESHOLD).nonzero().squeeze(1)
        scores, indices = best.values[likely], best.indices[likely]
        anchors, labels = indices // self.num_classes, indices % self.num_classes
        boxes = _decoded(offsets[anchors], anchors=self.anchors[anchors], side=self.side)
        # Boxes of different classes are moved apart, so that they do not overlap.
        left = nms(boxes + labels[:, None] * self.side, scores, IOU_THRESHOLD)
        scores, boxes = scores[left], boxes[left]
        centres = (boxes[:, :2] + boxes[:, 2:]) / (2 * self.side) * GRID
        columns, rows = centres.long().clamp(0, GRID - 1).unbind(1)
        cells = scores.new_zeros(GRID * GRID).index_add(0, rows * GRID + columns, scores)
        padded = torch.cat([scores, scores.new_zeros(self.num_boxes)])[: self.num_boxes]
        return torch.cat([padded, cells])


def _anchors(side: int) -> Tensor:
    """Return the anchors of all maps of an image, (n, 4) as x0, y0, x1, y1."""
    shapes = torch.tensor(
        [
            (scale * math.sqrt(1 / ratio), scale * math.sqrt(ratio))
            for scale in SCALES
            for ratio in RATIOS
        ]
    )
    anchors = []
    for level in LEVELS:
        step = 2**level
        centres = (torch.arange(-(-side // step)) + 0.5) * step
        grid = torch.cartesian_prod(centres, centres).flip(1)
        halves = shapes * ANCHOR_SIDE * step / 2
        corners = torch.cat([-halves, halves], dim=1)
        anchors.append((grid.repeat(1, 2)[:, None] + corners[None]).flatten(0, 1))
    return torch.cat(anchors)


def _decoded(offsets: Tensor, *, anchors: Tensor, side: int) -> Tensor:
    """Return the boxes that `offsets` make of `anchors`, within the image."""
    sizes = anchors[:, 2:] - anchors[:, :2]
    centres = anchors[:, :2] + sizes / 2 + offsets[:, :2] * sizes
    halves = sizes * offsets[:, 2:].clamp(max=MAX_LOG_SCALE).exp() / 2
    return torch.cat([centres - halves, centres + halves], dim=1).clamp(0, side)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(seeded_weights(lambda: AnchorDetector(config)), config)


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
