# get.pl CLIENT URL: prints the status and the length of what HTTP::Tiny or LWP gets.
use strict;
use warnings;

my ($client, $url) = @ARGV;
if ($client eq "tiny") {
    require HTTP::Tiny;
    my $answer = HTTP::Tiny->new(timeout => 90)->get($url);
    print $answer->{status}, " ", length($answer->{content}), "\n";
} else {
    require LWP::UserAgent;
    my $answer = LWP::UserAgent->new(timeout => 90)->get($url);
    print $answer->code, " ", length($answer->content), "\n";
}
