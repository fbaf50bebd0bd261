// Connections between the devices of a machine, and which of them to take
// together. The ranks of a job exchange gradients in every step along a ring,
// which is as fast as its slowest link.
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

// Link between two devices, slowest first. The words are those of `nvidia-smi
// topo -m`.
enum class Link : uint8_t {
  kUnknown,     // between machines, or not reported
  kSystem,      // "SYS": between NUMA nodes
  kNode,        // "NODE": through host bridges of a NUMA node
  kHostBridge,  // "PHB": through one PCIe host bridge
  kSwitches,    // "PXB": through several PCIe switches
  kSwitch,      // "PIX": through one PCIe switch
  kNvlink,      // "NVL": NVLink or NVSwitch
};

// Returns the word of the link; "" for kUnknown.
absl::string_view ToString(Link link);
// Returns nothing for other words.
std::optional<Link> ParseLink(absl::string_view text);

class Topology {
 public:
  // Sets the link in both directions.
  void Connect(DeviceId a, DeviceId b, Link link);
  Link Between(DeviceId a, DeviceId b) const;
  // Returns whether no link is known.
  bool empty() const { return links_.empty(); }

 private:
  std::vector<std::vector<Link>> links_;  // by id, as far as known
};

// Quality of a choice among the free devices of a machine. Compared first by
// the slowest link between the chosen devices, then by the sum of all links
// between them, then by the sum of links that are cut to devices that stay
// free. Sums count a link by its place in the enum above.
struct Connection {
  Link slowest = Link::kNvlink;  // slowest link; kNvlink for one device
  uint32_t inside = 0;
  uint32_t cut = 0;
};

// Returns whether `a` is better than `b`.
bool IsBetter(const Connection& a, const Connection& b);

struct ConnectedDevices {
  std::vector<DeviceId> ids;  // rising
  Connection connection;
};

// Returns the best connected `count` of the free devices, by rising id; between
// equal choices the devices that come first in `free`. Exact where there are at
// most kMostChoices choices; otherwise grows a choice from each device, one
// device at a time. 1 <= count <= free.size() must hold.
ConnectedDevices BestConnected(const Topology& topology,
                               absl::Span<const DeviceId> free, size_t count);
inline constexpr uint64_t kMostChoices = 2000;

}  // namespace gpupool::scheduler
