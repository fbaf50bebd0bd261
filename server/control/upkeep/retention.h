// Private to server/control: drops what is kept of jobs that ended long ago, a
// part at a time, so that the database stays bounded. Which: StoreOptions.
//
// Thread-safety: none; control thread only.
#pragma once

#include "absl/time/time.h"

namespace gpupool::server {

class Transaction;

class Retention {
 public:
  // Adds to the transaction what goes now. Looks every ten seconds, and at
  // every turn while there is more.
  void Run(Transaction& transaction);

 private:
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace gpupool::server
