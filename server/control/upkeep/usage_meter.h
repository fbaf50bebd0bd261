// Private to server/control: counts who uses how much of which device. What is
// placed somewhere is charged whenever that changes and every ten seconds, in
// the transaction of that turn; so a killed server loses at most those, and
// time in which none runs is not counted.
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
  // At the end of a turn, before its commit: adds what is due to its batch.
  // The energy is what `board` has heard of.
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
    size_t jobs = 0;              // of them
  };

  static void ChargeDevice(const scheduler::Device& device, const Meter& meter,
                           const Energy& energy, Transaction& transaction);
  static Holder HolderOf(const scheduler::Version& version,
                         Transaction& transaction);
  static Meter Read(const scheduler::Device& device, Transaction& transaction);

  std::map<scheduler::DeviceId, Meter> meters_;
  absl::Time next_ = absl::InfinitePast();  // when all are charged
};

}  // namespace gpupool::server
