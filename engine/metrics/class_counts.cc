#include "engine/metrics/class_counts.h"

namespace gpupool::engine {
namespace {

double Quotient(double a, double b) { return b == 0 ? 0 : a / b; }

}  // namespace

ClassCounts::ClassCounts(int64_t classes, Form form, bool confusion)
    : classes_(classes),
      form_(form),
      confusion_(confusion),
      numbers_(static_cast<size_t>(classes * (confusion ? 3 + classes : 3))) {}

ClassCounts::Class ClassCounts::At(int64_t c) const {
  const auto at = [&](int64_t i) {
    return static_cast<double>(numbers_[static_cast<size_t>(i)]);
  };
  return {at(c), at(classes_ + c), at(2 * classes_ + c)};
}

template <typename Metric>
double ClassCounts::Mean(const Metric& metric) const {
  double sum = 0, count = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    const Class one = At(c);
    if (form_ == Form::kOneOfMany && one.labels == 0 && one.answers == 0) {
      continue;
    }
    sum += metric(one);
    ++count;
  }
  return Quotient(sum, count);
}

template <typename Metric>
double ClassCounts::Average(const Metric& metric) const {
  if (form_ == Form::kOneOfMany && classes_ == 2) return metric(At(1));
  return Mean(metric);
}

double ClassCounts::Precision() const {
  return Average([](const Class& c) { return Quotient(c.hits, c.answers); });
}

double ClassCounts::Recall() const {
  return Average([](const Class& c) { return Quotient(c.hits, c.labels); });
}

double ClassCounts::F1() const {
  return Average([](const Class& c) {
    return Quotient(2 * c.hits, c.labels + c.answers);
  });
}

double ClassCounts::IntersectionOverUnion() const {
  return Mean([](const Class& c) {
    return Quotient(c.hits, c.labels + c.answers - c.hits);
  });
}

absl::Span<const int64_t> ClassCounts::confusion() const {
  if (!confusion_) return {};
  return absl::MakeConstSpan(numbers_).subspan(
      static_cast<size_t>(3 * classes_));
}

}  // namespace gpupool::engine
