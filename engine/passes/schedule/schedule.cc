#include "engine/passes/schedule/schedule.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/align.h"
#include "engine/base/status_macros.h"
#include "engine/passes/schedule/schedule_all_reduces.h"
#include "engine/passes/schedule/schedule_loads.h"
#include "engine/passes/schedule/schedule_updates.h"

namespace gpupool::engine {
namespace {

using Order = std::vector<int>;  // positions of step nodes in the graph

// The most nodes for which orders are tried; a larger graph takes too long.
constexpr size_t kMaxNodes = 20000;

// The step nodes as a graph of dependencies and buffers. A reshape shares its
// input's buffer.
class Tasks {
 public:
  explicit Tasks(const Graph& graph) : graph_(graph), index_(graph) {
    const int count = static_cast<int>(graph.nodes().size());
    first_ = 0;
    while (first_ < count && NodeAt(first_).stage == Stage::kLoad) ++first_;
    NameBuffers();
    tasks_.resize(static_cast<size_t>(count - first_));
    for (int i = first_; i < count; ++i) AddTask(i);
  }

  int count() const { return static_cast<int>(tasks_.size()); }
  int first() const { return first_; }

  Order Present() const {
    Order order(tasks_.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  // Returns the largest sum of live bytes in this order.
  uint64_t PeakOf(const Order& order) const {
    std::vector<int> left = uses_;
    std::vector<bool> alive = begins_alive_;
    uint64_t live = begin_bytes_;
    uint64_t peak = live;
    for (const int i : order) {
      const Task& task = At(i);
      for (const int b : task.writes) {
        if (!alive[Index(b)]) live += bytes_[Index(b)];
        alive[Index(b)] = true;
      }
      // Operands and results of a node live at the same time, so the peak is
      // taken before the operands are freed.
      peak = std::max(peak, live);
      for (const int b : task.touches) {
        if (--left[Index(b)] == 0 && !stays_[Index(b)]) {
          live -= bytes_[Index(b)];
        }
      }
    }
    return peak;
  }

  // List scheduling: runs, of the ready nodes, the one that leaves the fewest
  // live bytes; among equals the earliest.
  Order Forward() const { return List(false); }
  // List scheduling from the last node to the first.
  Order Backward() const {
    Order order = List(true);
    std::reverse(order.begin(), order.end());
    return order;
  }

  // Puts each node right before its first reader: depth first from the nodes
  // without successors, in their current order.
  Order Late() const {
    Order order;
    std::vector<bool> placed(tasks_.size(), false);
    for (int i = 0; i < count(); ++i) {
      if (At(i).after.empty()) Place(i, placed, order);
    }
    return order;
  }

 private:
  struct Task {
    std::vector<int> before, after;  // tasks
    std::vector<int> writes;         // buffers that begin here
    std::vector<int> touches;        // buffers read or written, each once
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  const Task& At(int i) const { return tasks_[Index(i)]; }
  const Node& NodeAt(int position) const {
    return graph_.nodes()[Index(position)];
  }

  void NameBuffers() {
    const size_t count = graph_.values().size();
    buffer_of_.resize(count);
    bytes_.assign(count, 0);
    uses_.assign(count, 0);
    stays_.assign(count, false);
    begins_alive_.assign(count, false);
    for (const Value& value : graph_.values()) {
      buffer_of_[Index(value.id.index)] = value.id.index;
      if (value.kind == ValueKind::kInput) {
        begins_alive_[Index(value.id.index)] = true;
      }
      const bool planned = (value.kind == ValueKind::kIntermediate &&
                            value.alias.kind == AliasKind::kNone) ||
                           value.kind == ValueKind::kInput;
      if (planned) bytes_[Index(value.id.index)] = AlignUp(value.bytes());
    }
    for (const Node& node : graph_.nodes()) {
      // Nodes are in topological order, so the operand's buffer is final.
      if (node.op != Op::kReshape || node.stage != Stage::kStep) continue;
      const int root = buffer_of_[Index(node.inputs[0].index)];
      const ValueKind kind = graph_.value(ValueId{root}).kind;
      if (kind != ValueKind::kIntermediate && kind != ValueKind::kInput) {
        continue;
      }
      buffer_of_[Index(node.outputs[0].index)] = root;
    }
    for (const GraphOutput& output : graph_.outputs()) {
      stays_[Index(buffer_of_[Index(output.value.index)])] = true;
    }
    for (const Value& value : graph_.values()) {
      if (value.kind == ValueKind::kInput) {
        begin_bytes_ += bytes_[Index(value.id.index)];
      }
    }
  }

  void AddTask(int position) {
    const Node& node = NodeAt(position);
    Task& task = tasks_[Index(position - first_)];
    const auto wait = [&](int other) {
      // Load nodes have run before the step begins.
      if (other < first_ || other == position) return;
      task.before.push_back(other - first_);
    };
    for (const ValueId id : node.inputs) {
      wait(index_.producer(id));
      task.touches.push_back(buffer_of_[Index(id.index)]);
    }
    for (const ValueId id : node.outputs) {
      const int buffer = buffer_of_[Index(id.index)];
      task.touches.push_back(buffer);
      if (buffer == id.index) task.writes.push_back(buffer);
      // An overwriting node waits for all readers of the old value.
      const Alias& alias = graph_.value(id).alias;
      if (alias.kind != AliasKind::kUpdate) continue;
      for (const int reader : index_.readers(alias.of)) wait(reader);
    }
    for (std::vector<int>* list : {&task.before, &task.touches}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    for (const int other : task.before) {
      tasks_[Index(other)].after.push_back(position - first_);
    }
    for (const int buffer : task.touches) ++uses_[Index(buffer)];
  }

  void Place(int root, std::vector<bool>& placed, Order& order) const {
    std::vector<std::pair<int, size_t>> path{{root, 0}};
    while (!path.empty()) {
      auto& [task, next] = path.back();
      if (placed[Index(task)]) {
        path.pop_back();
        continue;
      }
      if (next < At(task).before.size()) {
        const int other = At(task).before[next++];
        if (!placed[Index(other)]) path.push_back({other, 0});
        continue;
      }
      placed[Index(task)] = true;
      order.push_back(task);
      path.pop_back();
    }
    // A loop and not a recursion: a chain may have thousands of nodes.
  }

  Order List(bool backward) const;

  const Graph& graph_;
  const GraphIndex index_;
  int first_ = 0;  // position of the first step node
  std::vector<Task> tasks_;
  // Indexed by value; only entries of buffers' roots are used.
  std::vector<int> buffer_of_;
  std::vector<uint64_t> bytes_;
  std::vector<int> uses_;
  std::vector<bool> stays_, begins_alive_;
  uint64_t begin_bytes_ = 0;
};

// Returns the order of list scheduling. In the backward walk a buffer begins at
// its last user and ends where it is written.
Order Tasks::List(bool backward) const {
  std::vector<int> waits(tasks_.size());
  std::vector<int> left = uses_;
  std::vector<bool> begun = backward ? stays_ : begins_alive_;
  std::vector<std::vector<int>> users(bytes_.size());
  for (int i = 0; i < count(); ++i) {
    const Task& task = At(i);
    waits[Index(i)] =
        static_cast<int>((backward ? task.after : task.before).size());
    for (const int b : task.touches) users[Index(b)].push_back(i);
  }
  // Returns the live bytes that running the task next would add.
  const auto cost = [&](int i) {
    int64_t sum = 0;
    for (const int b : At(i).touches) {
      const auto size = static_cast<int64_t>(bytes_[Index(b)]);
      const bool ends_alive =
          backward ? begins_alive_[Index(b)] : stays_[Index(b)];
      if (!begun[Index(b)]) sum += size;
      if (left[Index(b)] == 1 && !ends_alive) sum -= size;
    }
    return sum;
  };
  // Ties go to the earliest node, or the latest when walking backwards.
  const auto rank = [&](int i) { return backward ? -i : i; };
  std::vector<std::pair<int64_t, int>> key(tasks_.size());
  std::set<std::pair<int64_t, int>> ready;
  std::vector<bool> is_ready(tasks_.size(), false);
  const auto enter = [&](int i) {
    is_ready[Index(i)] = true;
    key[Index(i)] = {cost(i), rank(i)};
    ready.insert(key[Index(i)]);
  };
  for (int i = 0; i < count(); ++i) {
    if (waits[Index(i)] == 0) enter(i);
  }
  Order order;
  while (!ready.empty()) {
    // The rank is the number, or its negation in the backward walk.
    const int i = std::abs(ready.begin()->second);
    ready.erase(ready.begin());
    is_ready[Index(i)] = false;
    order.push_back(i);
    for (const int b : At(i).touches) {
      // The cost of a ready task changes only when one of its buffers begins,
      // or when it becomes the buffer's last user.
      const bool news = !begun[Index(b)] || left[Index(b)] == 2;
      begun[Index(b)] = true;
      --left[Index(b)];
      if (!news) continue;
      for (const int user : users[Index(b)]) {
        if (!is_ready[Index(user)]) continue;
        ready.erase(key[Index(user)]);
        enter(user);
      }
    }
    for (const int other : backward ? At(i).before : At(i).after) {
      if (--waits[Index(other)] == 0) enter(other);
    }
  }
  return order;
}

}  // namespace

absl::Status Schedule(Graph& graph) {
  RETURN_IF_ERROR(ScheduleLoads(graph));
  RETURN_IF_ERROR(ScheduleUpdates(graph));
  if (graph.nodes().size() > kMaxNodes) return absl::OkStatus();
  const Tasks tasks(graph);
  const AllReduceOrder all_reduces(graph);
  Order best = all_reduces.Arrange(tasks.Present(), tasks.first());
  uint64_t best_bytes = tasks.PeakOf(best);
  for (const Order& found :
       std::vector<Order>{tasks.Forward(), tasks.Backward(), tasks.Late()}) {
    Order order = all_reduces.Arrange(found, tasks.first());
    const uint64_t bytes = tasks.PeakOf(order);
    // The present order stays unless another one saves at least 1 %. A smaller
    // gain is not worth another order of nodes.
    if (bytes > best_bytes / 100 * 99) continue;
    best_bytes = bytes;
    best = std::move(order);
  }
  std::vector<Node> old = std::move(graph.mutable_nodes());
  std::vector<Node>& nodes = graph.mutable_nodes();
  nodes.clear();
  for (int i = 0; i < tasks.first(); ++i) {
    nodes.push_back(std::move(old[static_cast<size_t>(i)]));
  }
  for (const int i : best) {
    nodes.push_back(std::move(old[static_cast<size_t>(tasks.first() + i)]));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
