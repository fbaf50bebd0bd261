#include "scheduler/state/need_history.h"

#include <algorithm>

namespace gpupool::scheduler {

void NeedHistory::Add(const JobNeed& need) {
  ++counts_[need];
  ++total_;
  // Bounds the memory, and lets old habits fade.
  if (counts_.size() > kMostNeeds) Halve();
  if (total_ - renewed_at_ >= renewed_at_ / 10 + 1) Renew();
}

void NeedHistory::Halve() {
  total_ = 0;
  for (auto it = counts_.begin(); it != counts_.end();) {
    it->second /= 2;
    total_ += it->second;
    it = it->second == 0 ? counts_.erase(it) : std::next(it);
  }
  // Renew at the next need: the shares have changed.
  renewed_at_ = 0;
}

void NeedHistory::Renew() {
  renewed_at_ = total_;
  std::vector<TypicalNeed> needs;
  needs.reserve(counts_.size());
  for (const auto& [need, count] : counts_) {
    needs.push_back({need, static_cast<double>(count)});
  }
  std::stable_sort(needs.begin(), needs.end(),
                   [](const TypicalNeed& a, const TypicalNeed& b) {
                     return a.share > b.share;
                   });
  const double enough = kCovered * static_cast<double>(total_);
  double sum = 0;
  size_t count = 0;
  while (count < std::min(needs.size(), kMostTypical) && sum < enough) {
    sum += needs[count++].share;
  }
  needs.resize(count);
  for (TypicalNeed& need : needs) need.share /= sum;
  typical_ = std::move(needs);
}

}  // namespace gpupool::scheduler
