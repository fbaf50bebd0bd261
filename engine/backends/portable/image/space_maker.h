// Parts that the makers of convolutions and pools share. Host only.
#pragma once

#include "engine/backends/portable/image/image_space.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/graph/window.h"

namespace gpupool::engine::portable {

// Return the strides and positions of an image or volume [N, C, ...], or of
// weights [O, I, ...].
SpaceStrides StridesOf(const Value& x);
SpaceGrid PlacesOf(const Value& x);
SlideWindow SlideOf(const Window& window);

}  // namespace gpupool::engine::portable
