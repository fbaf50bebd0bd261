// Private to server/control: counts the device usage of each tenant. Placements
// are charged whenever they change and every ten seconds, in the transaction of
// that turn. So a killed server loses at most ten seconds, and time in which no
// server runs is not counted.
//
// Thread-safety: none; control thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gpupool/v1/usage.pb.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {
struct Device;
struct Version;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class DeviceBoard;
class Transaction;
struct Energy;

class UsageMeter {
 public:
  // Adds the charges to the transaction's batch. Call at the end of a turn,
  // before its commit. Takes energy from `board`.
  void Charge(Transaction& transaction, DeviceBoard& board);

 private:
  struct Holder {
    std::string tenant;
    std::string model;
    v1::UsageActivity activity = v1::TRAINING;
    uint64_t job = 0;
    uint64_t bytes = 0;
  };
  struct Meter {
    absl::Time since;
    std::vector<Holder> holders;  // jobs first
    size_t jobs = 0;              // number of jobs among `holders`
  };

  static void ChargeDevice(const scheduler::Device& device, const Meter& meter,
                           const Energy& energy, Transaction& transaction);
  static Holder HolderOf(const scheduler::Version& version,
                         Transaction& transaction);
  static Meter Read(const scheduler::Device& device, Transaction& transaction);

  std::map<scheduler::DeviceId, Meter> meters_;
  absl::Time next_ = absl::InfinitePast();  // time to charge all
};

}  // namespace gpupool::server
