#include "server/control/upkeep/clock_watch.h"

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kWorthALine = absl::Minutes(1);

}  // namespace

std::string ClockWatch::Look(absl::Duration ahead) {
  if (absl::AbsDuration(ahead - told_) < kWorthALine) return "";
  told_ = ahead;
  if (absl::AbsDuration(ahead) < kWorthALine) {
    return "event=clock_set text=\"the machine's clock agrees with the "
           "server's again\"";
  }
  return absl::StrCat(
      "event=clock_set ahead_seconds=", absl::ToInt64Seconds(ahead),
      " text=\"the machine's clock was set; nothing is charged for that, and "
      "times of jobs and reservations follow the clock as it was\" "
      "remedy=\"restart the server, jobs go on meanwhile\"");
}

}  // namespace gpupool::server
