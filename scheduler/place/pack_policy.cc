#include "scheduler/place/pack_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "scheduler/place/fragmentation.h"
#include "scheduler/place/obstacle.h"

namespace gpupool::scheduler {
namespace {

// The sites of a machine with enough free devices.
struct Spaces {
  std::vector<SiteSpace> sites;
  std::vector<size_t> numbers;  // Device::site of each site
};

struct PackChoice {
  std::vector<const Device*> devices;
  double growth = 0;
  uint64_t left = 0;  // free bytes of the site

  bool IsBetterThan(const PackChoice& other) const {
    // Equal sums differ by rounding when their terms come in another order.
    const double slack = 1e-9 * (std::abs(growth) + std::abs(other.growth));
    if (std::abs(growth - other.growth) > slack) return growth < other.growth;
    if (left != other.left) return left < other.left;
    return devices.front()->id < other.devices.front()->id;
  }
};

// Chooses devices by fragmentation over all machines of the pool.
class Packing {
 public:
  Packing(const State& state, const Need& need,
          absl::Span<const std::vector<const Device*>> usable)
      : state_(state),
        need_(need),
        usable_(usable),
        machines_(state.machines().size()),
        index_(state.devices().size()) {
    FindSpaces();
  }

  std::vector<const Device*> Choose() const {
    std::optional<PackChoice> best;
    for (size_t machine = 0; machine < machines_.size(); ++machine) {
      const Spaces& spaces = machines_[machine];
      for (size_t at = 0; at < spaces.sites.size(); ++at) {
        // The site counts for the fragmentation of its machine, but the job
        // cannot go there.
        if (usable_[spaces.numbers[at]].empty()) continue;
        PackChoice choice = OnSite(machine, at);
        if (!best || choice.IsBetterThan(*best)) best = std::move(choice);
      }
    }
    if (!best) return {};
    return std::move(best->devices);
  }

 private:
  // Collects the free bytes of all sites of machines that have room. Sites
  // without room count too, since they share the machine's host.
  void FindSpaces() {
    std::vector<char> has_room(machines_.size());
    for (const auto& devices : usable_) {
      if (!devices.empty()) has_room[devices.front()->machine] = 1;
    }
    const Need least = LeastNeed(nullptr);
    constexpr Meanwhile in_time{
        .settled = true, .promise_kept = true, .reservation_over = true};
    for (const auto& [id, device] : state_.devices()) {
      if (!has_room[device.machine] ||
          ObstacleFor(state_, device, least, in_time)) {
        continue;
      }
      Spaces& spaces = machines_[device.machine];
      const auto number =
          std::find(spaces.numbers.begin(), spaces.numbers.end(), device.site);
      const auto at = static_cast<size_t>(number - spaces.numbers.begin());
      if (number == spaces.numbers.end()) {
        spaces.numbers.push_back(device.site);
        spaces.sites.push_back({.kind = device.kind, .free = {}});
      }
      std::vector<uint64_t>& free = spaces.sites[at].free;
      index_[id.value()] = free.size();
      free.push_back(device.free_bytes());
    }
  }

  PackChoice OnSite(size_t machine, size_t at) const {
    const Spaces& spaces = machines_[machine];
    const std::vector<const Device*>& devices = usable_[spaces.numbers[at]];
    std::vector<size_t> indexes;
    indexes.reserve(devices.size());
    for (const Device* device : devices) {
      indexes.push_back(index_[device->id.value()]);
    }
    const SiteChoice found =
        LeastFragmenting({.machine = state_.machines()[machine],
                          .sites = spaces.sites,
                          .at = at,
                          .usable = indexes},
                         {.devices = need_.devices,
                          .bytes = need_.bytes,
                          .host = need_.demands.host},
                         state_.needs().typical());
    PackChoice choice{.devices = {}, .growth = found.growth};
    for (size_t index : found.devices) {
      const auto position = std::find(indexes.begin(), indexes.end(), index);
      choice.devices.push_back(
          devices[static_cast<size_t>(position - indexes.begin())]);
    }
    const std::vector<uint64_t>& free = spaces.sites[at].free;
    // Ties go to the fuller site, which leaves emptier ones for large jobs.
    choice.left = std::accumulate(free.begin(), free.end(), uint64_t{0});
    return choice;
  }

  const State& state_;
  const Need& need_;
  absl::Span<const std::vector<const Device*>> usable_;  // by site
  std::vector<Spaces> machines_;
  std::vector<size_t> index_;  // by device: index into its site's `free`
};

}  // namespace

std::vector<const Device*> PackOnOneSite(
    const State& state, const Need& need,
    absl::Span<const std::vector<const Device*>> usable) {
  return Packing(state, need, usable).Choose();
}

}  // namespace gpupool::scheduler
