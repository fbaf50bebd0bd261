// Fair shares between tenants: whose job goes next, and who may take devices
// back. Names of tenants are paths, "research.vision" under "research": their
// shares are divided among siblings.
//
// What counts is a tenant's dominant share (Ghodsi et al., "Dominant Resource
// Fairness", NSDI 2011): the largest of its parts of the devices and of the
// bytes of one kind. Half of its standing is what it holds now, half is the
// mean of what it has held, in which the past fades by half every half-life.
// With a half-life of 0 the past does not count. Divided by its weight, the
// smallest goes first; siblings are compared before their children, so that
// nobody in a group that has had too much goes before somebody in one that has
// not, as in Slurm's Fair Tree.
//
// Thread-safety: a value; as State.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::scheduler {

// Of one tenant, its children included.
struct TenantShare {
  double weight = 1;  // > 0
  // It gets so many devices at once as soon as it asks for them: jobs of
  // tenants that hold more than theirs give way.
  std::optional<uint32_t> guaranteed;
  std::optional<uint32_t> most;  // devices at once
};

// By path. Tenants that are not in it have a weight of 1 and no limits.
using TenantShares = absl::btree_map<std::string, TenantShare>;

// "a.b.c": "a", "a.b", "a.b.c".
std::vector<absl::string_view> PathOf(absl::string_view tenant);

class TenantUsage {
 public:
  // A device is there, or no longer.
  void AddCapacity(absl::string_view kind, int64_t devices, int64_t bytes);

  // A rank of a job of the tenant takes a device, or gives it back.
  void Take(absl::string_view tenant, absl::string_view kind, uint64_t bytes,
            absl::Time now, absl::Duration half_life);
  void GiveBack(absl::string_view tenant, absl::string_view kind,
                uint64_t bytes, absl::Time now, absl::Duration half_life);

  // What a job took that ended before this was made, as if it had run in one
  // piece until then. Its dominant share counts, also beside those of others.
  struct Past {
    std::string tenant;
    std::string kind;
    uint32_t devices = 1;
    uint64_t bytes = 0;  // on each
    absl::Duration run;
    absl::Time end;
  };
  void Remember(const Past& past, absl::Time now, absl::Duration half_life);

  // Of the tenant at the end of a path, its children included.
  uint32_t Devices(absl::string_view path) const;
  // Between 0 and 1 unless jobs share devices.
  double DominantShare(absl::string_view path) const;
  // What it holds and has held, by weight; what is compared.
  double Standing(absl::string_view path, const TenantShares& shares,
                  absl::Time now, absl::Duration half_life) const;

  // The level of the path where `more` devices are more than it may use.
  std::optional<std::string> LevelAtLimit(absl::string_view tenant,
                                          uint32_t more,
                                          const TenantShares& shares) const;
  // With `more` devices it still uses no more than what it is guaranteed, at
  // some level of its path.
  bool IsGuaranteed(absl::string_view tenant, uint32_t more,
                    const TenantShares& shares) const;

  size_t size() const { return nodes_.size(); }

 private:
  struct Held {
    std::string kind;
    int64_t devices = 0;
    int64_t bytes = 0;
  };
  struct Node {
    std::vector<Held> held;  // few kinds
    uint32_t devices = 0;
    double share = 0;  // dominant
    double mean = 0;   // of the share, up to `since`
    absl::Time since;
  };

  void Change(absl::string_view tenant, absl::string_view kind, int64_t devices,
              int64_t bytes, absl::Time now, absl::Duration half_life);
  double ShareOf(const Node& node) const;
  static double MeanAt(const Node& node, absl::Time now,
                       absl::Duration half_life);
  void DropFaded(absl::Time now, absl::Duration half_life);

  absl::btree_map<std::string, Node> nodes_;  // by path
  std::vector<Held> capacity_;
  size_t most_nodes_ = 1024;  // then those that have faded are dropped
};

// Returns whether some tenant has a guarantee, so that its devices may have to
// be taken back.
bool HasGuarantees(const TenantShares& tenants);

}  // namespace gpupool::scheduler
