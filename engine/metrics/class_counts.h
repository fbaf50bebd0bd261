// Counts of right and wrong answers by class, and the metrics that follow from
// them. The names and the rules for empty classes are those of scikit-learn.
// Values; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

class ClassCounts {
 public:
  // The relation between the classes.
  enum class Form : uint8_t {
    kOneOfMany,  // a row has one of the classes
    kYesOrNo,    // a row has any of the classes, or none
  };

  // Counts pairs of classes only with `confusion`, which takes classes^2
  // numbers.
  ClassCounts(int64_t classes, Form form, bool confusion);

  // Counts a row with this label that was given class `answer`; both are below
  // the number of classes. Only for kOneOfMany.
  void Add(int64_t label, int64_t answer) {
    ++labels(label);
    ++answers(answer);
    if (label == answer) ++hits(label);
    if (confusion_) ++numbers_[static_cast<size_t>(Pair(label, answer))];
  }
  // Counts whether a row has the class, and whether it was said to. Only for
  // kYesOrNo.
  void AddAnswer(int64_t one, bool label, bool answer) {
    labels(one) += label;
    answers(one) += answer;
    hits(one) += label && answer;
  }

  // Return the metric of class 1 if there are two classes of kOneOfMany.
  // Otherwise return the mean over the classes, in which classes of kOneOfMany
  // that neither a label nor an answer has do not count. A quotient with the
  // divisor 0 is 0.
  double Precision() const;  // right answers of all answers
  double Recall() const;     // right answers of all labels
  double F1() const;         // harmonic mean of both, for each class
  // Returns the mean, over both of two classes as well, of right answers of all
  // rows that have the class as label or answer.
  double IntersectionOverUnion() const;

  int64_t classes() const { return classes_; }
  // Returns the rows by label and answer, [classes, classes]. Empty without
  // confusion.
  absl::Span<const int64_t> confusion() const;

  // Returns all counts, to be added up over the ranks of a job.
  absl::Span<int64_t> numbers() { return absl::MakeSpan(numbers_); }

 private:
  struct Class {
    double hits, labels, answers;
  };

  int64_t& hits(int64_t c) { return numbers_[static_cast<size_t>(c)]; }
  int64_t& labels(int64_t c) {
    return numbers_[static_cast<size_t>(classes_ + c)];
  }
  int64_t& answers(int64_t c) {
    return numbers_[static_cast<size_t>(2 * classes_ + c)];
  }
  int64_t Pair(int64_t label, int64_t answer) const {
    return (3 + label) * classes_ + answer;
  }
  Class At(int64_t c) const;
  // Returns the mean of `metric` over the classes that count.
  template <typename Metric>
  double Mean(const Metric& metric) const;
  // Returns the mean, or with two classes of kOneOfMany the second's.
  template <typename Metric>
  double Average(const Metric& metric) const;

  int64_t classes_;
  Form form_;
  bool confusion_;
  // Hits, labels and answers of each class, then the pairs.
  std::vector<int64_t> numbers_;
};

}  // namespace gpupool::engine
