// How well devices of one machine are connected, and which of them to take
// together. Ranks of a job exchange gradients in every step along a ring, which
// is as fast as its slowest link.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Between two devices, slowest first; the words of `nvidia-smi topo -m`.
enum class Link : uint8_t {
  kUnknown,     // between machines, or where nobody tells
  kSystem,      // "SYS": from one NUMA node to another
  kNode,        // "NODE": through host bridges of one NUMA node
  kHostBridge,  // "PHB"
  kSwitches,    // "PXB": through several PCIe switches
  kSwitch,      // "PIX": through one
  kNvlink,      // "NVL": NVLink or NVSwitch
};

// "" for kUnknown.
absl::string_view ToString(Link link);
// Nothing for other words.
std::optional<Link> ParseLink(absl::string_view text);

class Topology {
 public:
  // Both ways.
  void Connect(DeviceId a, DeviceId b, Link link);
  Link Between(DeviceId a, DeviceId b) const;
  // No link is known.
  bool empty() const { return links_.empty(); }

 private:
  std::vector<std::vector<Link>> links_;  // by id, as far as they are known
};

// How good it is to take some of the free devices of a machine: first by the
// slowest link between them, then by all links between them, then by how few
// good links to devices that stay free are cut. Sums count a link as its place
// in the list above.
struct Connection {
  Link slowest = Link::kNvlink;  // of one device
  uint32_t inside = 0;
  uint32_t cut = 0;
};

// `a` is better than `b`.
bool IsBetter(const Connection& a, const Connection& b);

struct ConnectedDevices {
  std::vector<DeviceId> ids;  // rising
  Connection connection;
};

// The best connected `count` of the free devices, rising; of equal ones those
// that come first in `free`. Exact where there are at most kMostChoices ways,
// otherwise grown from each device one by one. 1 <= count <= free.size().
ConnectedDevices BestConnected(const Topology& topology,
                               absl::Span<const DeviceId> free, size_t count);
inline constexpr uint64_t kMostChoices = 2000;

}  // namespace gpupool::scheduler
