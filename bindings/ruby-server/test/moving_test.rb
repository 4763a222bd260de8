# frozen_string_literal: true

require "tmpdir"
require_relative "test_helper"

# Runs the Ruby programs of docs/jobs.md: a job of Sidekiq, and the same job for Punctual.
class MovingTest < Minitest::Test
  include PunctualTest::Needs

  PAGE = File.expand_path("../../../docs/jobs.md", __dir__)
  BEFORE, AFTER = File.read(PAGE, encoding: "UTF-8").scan(/^```ruby\n(.*?)^```/m).flatten
  PATIENCE = 60
  # The file `mail.rb` for both programs. The first call of `send_mail` raises an exception, unless
  # the environment has ANSWERS.
  MAIL = <<~RUBY
    def send_mail(user)
      first = !File.exist?("mails")
      File.write("mails", "\#{user} ", mode: "a")
      raise IOError, "no answer" if first && !ENV["ANSWERS"]
    end
  RUBY

  def setup
    @folder = Dir.mktmpdir
    File.write(File.join(@folder, "mail.rb"), MAIL)
  end

  def teardown
    FileUtils.rm_rf(@folder) if @folder
  end

  def test_before
    need "sidekiq"
    # With `inline!`, Sidekiq runs jobs at once, without retries.
    inline = BEFORE.sub('require "mail"', %(\\0\nrequire "sidekiq/testing"\nSidekiq::Testing.inline!))
    refute_equal BEFORE, inline
    _, status = Process.wait2(start(inline, "ANSWERS" => "1"))
    assert_predicate status, :success?
    assert_equal "ann ", mails
  end

  def test_after
    need "redis"
    Punctual::Server.open(clock: :virtual) do |server|
      redis = Redis.new(url: server.url)
      worker = start(AFTER.sub("port: 6379") { "port: #{server.port}, timeout: #{PATIENCE}" })
      wait { redis.exists?("default") }
      server.advance(3599.999r)
      assert_nil mails
      server.advance(0.001r)
      wait { mails == "ann " }
      wait { info(redis)["delayed"] == 1 }
      server.advance(1)
      wait { info(redis)["total-done"] == 1 }
      assert_equal "ann ann ", mails
      Process.kill("TERM", worker)
      status = nil
      # An advance of the server's clock ends the worker's wait for a job.
      wait { server.advance(1) && (status = Process.wait2(worker, Process::WNOHANG)&.last) }
      assert_predicate status, :success?
    end
  end

  private

  def mails
    path = File.join(@folder, "mails")
    File.read(path) if File.exist?(path)
  end

  def info(redis) = redis.call("JOB", "INFO", "default").each_slice(2).to_h

  def start(program, environment = {})
    spawn(environment, RbConfig.ruby, "-W0", *PunctualTest.includes, "-I#{@folder}", "-e", program, chdir: @folder)
  end

  def wait
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      flunk "it takes too long" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
      sleep(0.01)
    end
  end
end
