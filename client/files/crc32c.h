// The checksum CRC-32C (Castagnoli's polynomial). Pure.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns the checksum of the bytes. The one of "123456789" is 0xe3069283.
uint32_t Crc32c(absl::string_view bytes);

}  // namespace gpupool::client
