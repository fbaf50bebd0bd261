// Private to server/control: drops data of jobs that ended long ago, step by
// step, so that the database stays bounded. StoreOptions has the limits.
//
// Thread-safety: none; control thread only.
#pragma once

#include "absl/time/time.h"

namespace gpupool::server {

class Transaction;

class Retention {
 public:
  // Adds the next drops to the transaction. Looks every ten seconds, and in
  // every turn while there is more.
  void Run(Transaction& transaction);

 private:
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace gpupool::server
