# frozen_string_literal: true

require_relative "test_helper"

class PriorityQueueMapTest < Minitest::Test
  def setup
    @map = Punctual::PriorityQueue::Map.new
  end

  def test_scores_by_key
    @map["a"] = 3
    @map.push("b", 5) << 4
    @map["b"] = 1
    assert_equal [3, 1, 4, nil], [@map["a"], @map.score("b"), @map[4], @map["c"]]
    assert_equal [true, false], [@map.scored?("a"), @map.scored?("c")]
    assert_equal 9, @map.rescore("b", 9)
    assert_equal [1, 2], [@map.rescore("c", 1), @map.update("c", 2)]
    assert_equal [2, 2], [@map["c"], @map.delete("c")]
    assert_equal 3, @map.delete("a")
    assert_nil @map.delete("a")
    assert_equal [[4, 4], ["b", 9], nil], [@map.pop_with_score, @map.pop_with_score, @map.pop]
    refute @map.scored?("b")
  end

  def test_limits_and_clear
    @map[:a] = 1
    @map[:b] = 2
    assert_equal [nil, :a, :b], [@map.pop_lt(1), @map.pop_lte(1), @map.pop_below(9)]
    @map[:a] = 1
    @map.clear
    refute @map.scored?(:a)
    @map[:a] = 7
    assert_equal 7, @map[:a]
  end

  def test_dup_and_freeze
    @map[:a] = 1
    copy = @map.dup
    copy[:a] = 2
    copy[:b] = 0
    assert_equal [1, nil, 2], [@map[:a], @map[:b], copy[:a]]
    assert_equal [[:b, 0], [:a, 2]], copy.each_with_score.to_a
    @map.freeze
    assert_raises(FrozenError) { @map[:a] = 2 }
    assert_raises(FrozenError) { @map.delete(:a) }
    assert_raises(FrozenError) { @map.pop }
    assert_equal 1, @map[:a]
  end

  def test_a_bad_score_changes_nothing
    @map[:a] = 1
    @map[:b] = 2
    assert_raises(ArgumentError) { @map[:c] = Float::NAN }
    assert_raises(ArgumentError) { @map[:a] = "x" }
    refute @map.scored?(:c)
    assert_equal [1, %i[a b]], [@map[:a], @map.each_pop.to_a]
  end

  def test_a_string_key_is_copied
    key = +"a"
    @map[key] = 1
    key << "b"
    assert_equal ["a", 1], @map.pop_with_score
  end

  def test_random_operations_against_a_model
    [->(n) { n }, ->(n) { format("%02d", n) }].each do |score_of|
      seed = PunctualTest.seed
      random = Random.new(seed)
      model = {}
      order = 0
      2000.times do
        key = random.rand(60)
        case random.rand(10)
        when 0..4
          score = score_of.call(random.rand(50))
          @map[key] = score
          model[key] = [score, order += 1]
        when 5..6
          assert model.delete(key)&.first == @map.delete(key), "seed #{seed}"
        when 7
          least = model.min_by { |_, entry| entry }&.first
          assert_equal least, @map.pop, "seed #{seed}" if least
          model.delete(least)
        else
          assert model[key]&.first == @map[key], "seed #{seed}"
        end
        assert_equal model.size, @map.size
      end
      assert_equal model.sort_by { |_, entry| entry }.map(&:first), @map.each_pop.to_a
    end
  end
end
