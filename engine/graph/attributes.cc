#include "engine/graph/attributes.h"

namespace gpupool::engine {

Attributes::Attributes() = default;
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;

bool operator==(const Attributes& a, const Attributes& b) {
  return static_cast<const AnyAttributes&>(a) ==
         static_cast<const AnyAttributes&>(b);
}

}  // namespace gpupool::engine
