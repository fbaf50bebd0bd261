// Fair shares between tenants: decides whose job goes next, and who may take
// devices back. Names of tenants are paths: "research.vision" is a child of
// "research", and the shares of a parent are divided among its children.
//
// Tenants are compared by their dominant share (Ghodsi et al., "Dominant
// Resource Fairness", NSDI 2011): the largest of a tenant's parts of the
// devices and of the bytes of one kind. The standing is the mean of two halves:
//   * the dominant share now
//   * the mean of past shares, which fade by half every half-life (0: the past
//     does not count)
//
// The smallest standing, divided by the tenant's weight, goes first. Siblings
// are compared before their children, as in Slurm's Fair Tree: nobody in a
// group that has had too much goes before somebody in one that has not.
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

// Settings of one tenant, its children included.
struct TenantShare {
  double weight = 1;  // > 0
  // Devices that the tenant gets as soon as it asks for them. Jobs of tenants
  // that hold more than their own guarantee give way.
  std::optional<uint32_t> guaranteed;
  std::optional<uint32_t> most;  // limit of devices at once
  // Limit of the planned bytes of its running jobs.
  std::optional<uint64_t> most_device_bytes;
  // Limits that the scheduler does not read. Who admits jobs, loads models and
  // stores bytes checks them.
  std::optional<uint32_t> most_jobs;    // jobs that have not ended
  std::optional<uint32_t> most_models;  // versions of models that are loaded
  std::optional<uint64_t> most_stored_bytes;
};

// Settings by path. A tenant that is not listed has weight 1 and no limits.
using TenantShares = absl::btree_map<std::string, TenantShare>;

// Returns "a", "a.b" and "a.b.c" for "a.b.c".
std::vector<absl::string_view> PathOf(absl::string_view tenant);

class TenantUsage {
 public:
  // Adds the capacity of a device, or takes it away with negative numbers.
  void AddCapacity(absl::string_view kind, int64_t devices, int64_t bytes);

  // Device that a rank of the tenant's job uses.
  struct Use {
    absl::string_view tenant;
    absl::string_view kind;
    uint64_t bytes = 0;
  };
  // Counts the device when it is taken or given back.
  void Take(const Use& use, absl::Time now, absl::Duration half_life);
  void GiveBack(const Use& use, absl::Time now, absl::Duration half_life);

  // Usage of a job that ended before this object was made, counted as if it had
  // run in one piece up to `end`. Counts with its own dominant share, which is
  // added to those of other jobs of the time.
  struct Past {
    std::string tenant;
    std::string kind;
    uint32_t devices = 1;
    uint64_t bytes = 0;  // on each
    absl::Duration run;
    absl::Time end;
  };
  void Remember(const Past& past, absl::Time now, absl::Duration half_life);

  // Returns the devices of the tenant at the end of the path, children
  // included.
  uint32_t Devices(absl::string_view path) const;
  // Returns the planned bytes on these devices.
  uint64_t Bytes(absl::string_view path) const;
  // Returns the dominant share: 0 to 1, or more where jobs share devices.
  double DominantShare(absl::string_view path) const;
  // Returns the standing of present and past usage by weight; smaller goes
  // first.
  double Standing(absl::string_view path, const TenantShares& shares,
                  absl::Time now, absl::Duration half_life) const;

  // Devices that a job asks for.
  struct Ask {
    uint32_t devices = 0;
    uint64_t bytes = 0;  // on each
  };
  // Returns the level of the path whose limit of devices or bytes would be
  // exceeded with `more`.
  std::optional<std::string> LevelAtLimit(absl::string_view tenant,
                                          const Ask& more,
                                          const TenantShares& shares) const;
  // Returns whether the tenant at the end of the path would have more devices
  // than its limit.
  bool ExceedsDevices(absl::string_view path, uint32_t more,
                      const TenantShares& shares) const;
  // Returns whether the tenant stays within a guarantee with `more` devices, at
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
    std::vector<Held> held;  // one entry for each kind
    uint32_t devices = 0;
    int64_t bytes = 0;
    double share = 0;  // dominant share now
    double mean = 0;   // mean share up to `since`
    absl::Time since;
  };

  // Adds the use `devices` times, which may be negative.
  void Change(const Use& use, int64_t devices, absl::Time now,
              absl::Duration half_life);
  double ShareOf(const Node& node) const;
  static double MeanAt(const Node& node, absl::Time now,
                       absl::Duration half_life);
  void DropFaded(absl::Time now, absl::Duration half_life);

  absl::btree_map<std::string, Node> nodes_;  // by path
  std::vector<Held> capacity_;
  size_t most_nodes_ = 1024;  // above it faded nodes are dropped
};

// Returns whether some tenant has a guarantee, so that its devices may have to
// be taken back.
bool HasGuarantees(const TenantShares& tenants);

}  // namespace gpupool::scheduler
