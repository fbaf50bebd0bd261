// The lanes of a group as threads of the host. They run a functor as a block of
// a GPU does, including its barriers.
#pragma once

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

namespace gpupool::engine::testing {

// Has the members of portable::SingleLane.
class LaneGroup {
 public:
  struct Shared {
    explicit Shared(int lanes)
        : barrier(lanes), cells(static_cast<size_t>(lanes)) {}
    std::barrier<> barrier;
    std::vector<double> cells;
  };
  LaneGroup(int lane, Shared* shared) : lane_(lane), shared_(shared) {}

  int lane() const { return lane_; }
  int lanes() const { return static_cast<int>(shared_->cells.size()); }
  void Meet() const { shared_->barrier.arrive_and_wait(); }
  template <typename T>
  T Sum(T value) const {
    return SumOfColumn(value, 1);
  }
  template <typename T>
  T Max(T value) const {
    return MaxOfColumn(value, 1);
  }
  template <typename T>
  T SumOfColumn(T value, int columns) const {
    return Combine(value, columns, [](T a, T b) { return a + b; });
  }
  template <typename T>
  T MaxOfColumn(T value, int columns) const {
    return Combine(value, columns,
                   [](T a, T b) { return a != a || a > b ? a : b; });
  }

 private:
  template <typename T, typename Operation>
  T Combine(T value, int columns, const Operation& operation) const {
    std::vector<double>& cells = shared_->cells;
    cells[static_cast<size_t>(lane_)] = static_cast<double>(value);
    Meet();
    auto at = static_cast<size_t>(lane_ % columns);
    T result = static_cast<T>(cells[at]);
    while ((at += static_cast<size_t>(columns)) < cells.size()) {
      result = operation(result, static_cast<T>(cells[at]));
    }
    Meet();
    return result;
  }

  int lane_;
  Shared* shared_;
};

// Runs functor(group, row) for each row, with `lanes` threads together.
template <typename Functor>
void RunByLanes(int lanes, int64_t rows, const Functor& functor) {
  LaneGroup::Shared shared(lanes);
  std::vector<std::thread> threads;
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      const LaneGroup group(lane, &shared);
      for (int64_t row = 0; row < rows; ++row) functor(group, row);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace gpupool::engine::testing
