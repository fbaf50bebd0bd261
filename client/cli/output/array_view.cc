#include "client/cli/output/array_view.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/job_view.h"
#include "client/text/counted.h"
#include "client/watch.h"

namespace gpupool::client {

std::string CountsText(const v1::JobArray& array) {
  return absl::StrJoin(array.counts(), ", ",
                       [](std::string* out, const v1::JobArray::Count& count) {
                         absl::StrAppend(out, count.tasks(), " ",
                                         StateText(count.state()));
                       });
}

std::string TasksText(const v1::JobArray& array) {
  const v1::ArraySpec& spec = array.spec().array();
  return absl::StrCat(
      Counted(array.tasks(), "task"), " (", spec.indices(), ")",
      spec.max_at_once() == 0
          ? ""
          : absl::StrCat(", at most ", spec.max_at_once(), " at once"));
}

void PrintArray(const Stream& stream, const v1::JobArray& array,
                absl::Time now) {
  std::ostream& out = *stream.stream;
  out << "array " << array.id() << " (" << array.spec().name()
      << "): " << TasksText(array) << "\n"
      << "tenant:      " << array.spec().tenant() << "\n"
      << "submitted:   " << Age(true, array.create_time(), now) << " ago\n"
      << "state:       " << CountsText(array) << "\n"
      << "see its tasks with: gpupool jobs --array " << array.id() << "\n";
}

v1::JobState StateOf(const v1::JobArray& array) {
  v1::JobState state = v1::SUCCEEDED;
  for (const v1::JobArray::Count& count : array.counts()) {
    if (!IsFinal(count.state())) return v1::RUNNING;
    if (count.state() != v1::SUCCEEDED) state = v1::FAILED;
  }
  return state;
}

}  // namespace gpupool::client
