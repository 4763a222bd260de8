# frozen_string_literal: true

require_relative "test_helper"

class PriorityQueueTest < Minitest::Test
  # A score that compares by a number and calls a block at each comparison.
  Score = Struct.new(:number, :on_compare) do
    include Comparable

    def <=>(other)
      on_compare&.call
      number <=> other.number if other.is_a?(Score)
    end
  end

  def queue(**options, &block)
    Punctual::PriorityQueue.new(**options, &block)
  end

  def test_pops_in_order_and_equal_scores_as_pushed
    q = queue
    assert_same q, q.push("b", 2)
    q.insert(1, "a").push("c", 2)
    q << 3
    assert_equal [4, "a", 1, ["a", 1]], [q.size, q.peek, q.peek_score, q.peek_with_score]
    assert_equal ["a", ["b", 2], "c", 3, nil, nil], [q.pop, q.pop_with_score, q.deq, q.shift, q.next, q.pop_with_score]
    assert_empty q
    assert_nil q.peek
    assert_nil q.peek_score
    assert_nil q.peek_with_score
  end

  def test_limits
    q = queue
    [5, 1, 3, 2, 4].each { |score| q.push("v#{score}", score) }
    assert_equal [nil, "v1", nil, "v2"], [q.pop_lt(1), q.pop_lte(1), q.pop_below(2), q.pop_lte(2.5)]
    assert_equal %w[v3 v4], q.pop_all_below(5)
    assert_equal [:x, "v5"], q.pop_all_below(6, [:x])
    assert_nil q.pop_lt(100)
  end

  def test_each_pop_and_each_with_score
    q = queue
    3.downto(1) { |score| q.push("v#{score}", score) }
    assert_equal [["v1", 1], ["v2", 2], ["v3", 3]], q.each_with_score.to_a
    assert_equal 3, q.each_with_score.size
    seen = []
    q.each_with_score do |value, _|
      seen << value
      q.clear # the values of before the call are yielded nevertheless
    end
    assert_equal %w[v1 v2 v3], seen
    q.push("x", 1).push("y", 0)
    assert_equal [["y", 0], ["x", 1]], q.each_pop(with_scores: true).to_a
    assert_empty q
  end

  def test_scores_by_block
    q = queue(&:size)
    q << "abacus" << "sum"
    q.push("number", 1)
    assert_equal %w[number sum abacus], q.each_pop.to_a
    copy = queue(&:-@).push(1).dup.push(2)
    assert_equal 2, copy.pop
  end

  def test_scores_of_every_kind
    big = 2**53
    [
      [3, 1, 2], [1.5, -0.5, 0.0, -0.0], [1, 0.5, -3, 2.5], [big + 1, big, big - 1], [big + 1, big.to_f, big - 1, 0.5],
      [2**70, (2**69) + 1, -(2**80), 5, 1.5], [Rational(1, 3), 0.3, 1], %w[pear fig apple], [Time.at(5), Time.at(3)],
      [Float::INFINITY, 1, -Float::INFINITY, 2**64], [[1, "b"], [1, "a"]], %i[b a], [2**62, (2**62) - 1, -(2**62) - 1]
    ].each do |scores|
      q = queue
      scores.each { |score| q << score }
      expected = scores.each_with_index.sort { |(a, i), (b, j)| [a <=> b, i <=> j].find { |c| c != 0 } || 0 }.map(&:first)
      assert_equal expected, q.each_pop.to_a
    end
  end

  def test_every_d
    [2, 3, 4, 5, 8, 128].each do |d|
      q = queue(d: d, capacity: 10)
      assert_equal d, q.d
      scores = (1..500).to_a.shuffle(random: Random.new(d))
      scores.each { |score| q << score }
      assert_equal scores.sort, q.each_pop.to_a
    end
    [1, 0, -1, 129, 2.5, nil, 2**70].each { |d| assert_raises(ArgumentError) { queue(d: d) } }
    [-1, 1.5, 2**40].each { |capacity| assert_raises(ArgumentError) { queue(capacity: capacity) } }
  end

  def test_dup_is_independent
    q = queue.push(:a, 1)
    copy = q.dup
    copy.push(:b, 0)
    q.pop
    assert_equal [0, 2], [q.size, copy.size]
    assert_equal :a, copy.freeze.dup.push(:c, 9).tap(&:pop).pop
  end

  def test_frozen
    q = queue.push(:a, 1).freeze
    assert_equal [:a, 1, 1, [[:a, 1]]], [q.peek, q.peek_score, q.size, q.each_with_score.to_a]
    [-> { q << 1 }, -> { q.push(1, 1) }, -> { q.insert(1, 1) }, -> { q.pop }, -> { q.pop_lt(9) }, -> { q.pop_lte(9) },
     -> { q.clear }, -> { q.pop_with_score }, -> { q.each_pop { nil } }].each { |change| assert_raises(FrozenError, &change) }
  end

  def test_nan_and_what_cannot_be_compared
    q = queue.push(:a, 1)
    assert_raises(ArgumentError) { q.push(:b, Float::NAN) }
    assert_raises(ArgumentError) { q.push(:b, "1") }
    assert_raises(ArgumentError) { q.push(:b, nil) }
    assert_raises(ArgumentError) { q.push(:b, BasicObjectScore.new) }
    assert_raises(ArgumentError) { q.pop_lt(Float::NAN) }
    assert_raises(ArgumentError) { q.pop_lte("1") }
    assert_raises(ArgumentError) { q.push }
    assert_raises(ArgumentError) { q.push(1, 2, 3) }
    assert_equal [:a], q.each_pop.to_a
  end

  # A score that cannot be compared with any object.
  class BasicObjectScore
    def <=>(_other)
      nil
    end
  end

  def test_a_comparison_that_raises_changes_nothing
    armed = false
    explode = -> { raise IOError, "boom" if armed }
    q = queue
    [5, 3, 8, 1, 9, 2, 7].each { |number| q.push(number, Score.new(number, explode)) }
    armed = true
    assert_raises(IOError) { q.push(0, Score.new(0, explode)) }
    assert_raises(IOError) { q.pop }
    assert_raises(IOError) { q.pop_lt(Score.new(5)) }
    armed = false
    assert_equal [1, 2, 3, 5, 7, 8, 9], q.each_pop.to_a
  end

  def test_a_comparison_cannot_change_its_queue
    q = queue
    meddle = nil
    [5, 3, 8, 1].each { |number| q.push(number, Score.new(number, -> { meddle&.call })) }
    [-> { q.pop }, -> { q.clear }, -> { q << Score.new(1) }].each do |change|
      meddle = change
      assert_raises(RuntimeError) { q.pop }
    end
    sizes = []
    meddle = -> { sizes << q.size << q.peek }
    assert_equal 1, q.pop
    refute_empty sizes
    meddle = nil
    assert_equal [3, 5, 8], q.each_pop.to_a
  end

  def test_throw_and_break_out_of_a_comparison
    q = queue
    out = false
    [5, 3, 8].each { |number| q.push(number, Score.new(number, -> { throw :out if out })) }
    out = true
    catch(:out) { q.pop }
    out = false
    assert_equal [3, 5, 8], q.each_pop.to_a
  end

  def test_memory_shrinks
    require "objspace"
    skip "pure Ruby: its arrays shrink" unless Punctual::NATIVE
    q = queue
    empty = ObjectSpace.memsize_of(q)
    100_000.times { |i| q << i }
    assert_operator ObjectSpace.memsize_of(q), :>, 3_000_000
    99_990.times { q.pop }
    assert_operator ObjectSpace.memsize_of(q), :<, empty + 70_000
  end

  def test_ractors
    skip "pure Ruby" unless Punctual::NATIVE
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      queue = Punctual::PriorityQueue.new
      [3, 1, 2].each { |i| queue.push("v\#{i}", i) }
      begin
        Ractor.new { Ractor.receive }.send(queue, move: true)
      rescue Ractor::Error => e
        puts e.message
      end
      begin
        Ractor.new(Punctual::Timers::Group.new) { |group| group }.take
      rescue TypeError => e
        puts e.message
      end
      Ractor.make_shareable(queue)
      p Ractor.shareable?(queue)
      p Array.new(2) { Ractor.new(queue) { |q| 1000.times.map { q.peek }.uniq + q.each_with_score.to_a } }.map(&:take)
      p Ractor.new { q = Punctual::PriorityQueue.new; 9.downto(1) { |i| q << i }; q.each_pop.to_a }.take
      begin
        Ractor.new { Punctual::Time.after(1) }.take
      rescue Ractor::RemoteError => e
        puts e.cause.class
      end
    RUBY
    expected = '["v1", ["v1", 1], ["v2", 2], ["v3", 3]]'
    assert_match(/can not move Punctual::PriorityQueue object.\ncan't copy Punctual::Timers::Group\n/, output)
    assert_includes output, "true\n[#{expected}, #{expected}]\n[1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
    assert_match(/^Ractor::IsolationError$/, output)
    assert_predicate status, :success?, output
  end

  def test_random_operations_against_a_model
    [->(n) { n }, ->(n) { n.to_f / 3 }, ->(n) { Score.new(n) }, ->(n) { n.even? ? n : n + 0.5 }].each do |score_of|
      seed = PunctualTest.seed
      random = Random.new(seed)
      q = queue(d: random.rand(2..6))
      model = []
      1500.times do |step|
        if random.rand(100) < (step % 300 < 150 ? 70 : 30)
          score = score_of.call(random.rand(40))
          q.push(step, score)
          model << [score, step]
        else
          least = model.min { |(a, i), (b, j)| (a <=> b).nonzero? || (i <=> j) }
          assert least&.last == q.pop, "seed #{seed}"
          model.delete(least)
        end
        assert_equal model.size, q.size
      end
    end
  end
end
